local done = redis.pcall('DEL', KEYS[2])
return type(done) == 'table' and done.err or nil
