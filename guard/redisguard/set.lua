if ARGV[2] then return redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return redis.pcall('SET', KEYS[1], ARGV[1])
