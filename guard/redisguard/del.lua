local done = redis.pcall('DEL', KEYS[1])
return type(done) == 'table' and done.err or nil
