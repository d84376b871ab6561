-- KEYS: what to read, and a key that never exists. Its deletion does nothing, but a server that takes no writes refuses
-- it: so a replica, which may be behind, does not answer.
redis.call('DEL', KEYS[2])
return redis.call('GET', KEYS[1])
