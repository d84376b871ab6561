local done
if ARGV[5] then
	done = redis.pcall('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
else
	done = redis.pcall('SET', KEYS[2], ARGV[4])
end
return done.err
