local done
if ARGV[2] then
	done = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
	done = redis.pcall('SET', KEYS[1], ARGV[1])
end
return done.err
