local n = redis.pcall('DEL', KEYS[1])
return type(n) == 'table' and n or nil
