-- The check, the raise of the mark and the write, in one step. fencedlock_write is defined above: the write itself, or nil
-- to seal; fencedlock_single says that it is one command, which happens as a whole or not at all.
--
--   KEYS: the mark, then those of the write
--   ARGV: token, nonce of this operation, order, then those of the write
--
-- The order is empty at first; it is nonces to close, each followed by a comma, after "again:" when the operation may have
-- been carried out before.
--
-- The mark is "1 token nonce closed reply": its version, the highest token seen, the nonce of the last operation, nonces
-- of this token that must not be carried out any more, and how the last operation ended:
--   'd' done, 'r' its packed reply, 'e' the error it returned, 'f' why it broke off, 'n' why its only command was refused;
--   nothing while it runs.
-- What is closed grows with lost replies only, and a higher token empties it.
--
-- The answer is 'ran', or a list: 'ran' and the reply, 'error', 'failed' or 'not written' and the text of an error, 'not
-- marked' and why the mark was neither read nor written, 'stale' and the mark, 'closed', or 'unreadable' and how the mark
-- begins. Functions are made where they are needed and capture nothing, since that takes longer than most of what they do.
local key, tok, nonce, order = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local highest, last, closed, reply = '', '', '', ''

local function not_marked(e)
	if string.find(e.err, 'READONLY ', 1, true) then return e end -- go-redis leaves a server that answers so
	return {'not marked', e.err}
end

local function save(key, tok, last, closed, reply)
	return redis.pcall('SET', key, '1 ' .. tok .. ' ' .. last .. ' ' .. closed .. ' ' .. reply)
end

local mark = redis.pcall('GET', key)
if type(mark) == 'table' then return not_marked(mark) end
if mark then
	highest, last, closed, reply = string.match(mark, '^1 ([1-9]%d*) (%w+) ([%w,]*) (.*)$')
	if not highest then return {'unreadable', string.sub(mark, 1, 64)} end
end

if tok ~= highest then
	-- Numbers of Lua are doubles, which merge neighbours beyond 2^53, and its < on texts goes by the server's locale. So
	-- the longer one is greater, else the first byte that differs decides.
	if #tok < #highest then return {'stale', highest} end
	if #tok == #highest then
		for i = 1, #tok do
			local a, b = string.byte(tok, i), string.byte(highest, i)
			if a < b then return {'stale', highest} end
			if a > b then break end
		end
	end
	last, closed, reply = '', '', '' -- they were another holder's
end

local again, over = false, false
if order ~= '' or closed ~= '' then
	local function close(closed, n)
		if string.find(closed, n, 1, true) then return closed end
		return closed .. n .. ','
	end
	again = string.sub(order, 1, 6) == 'again:'
	over = string.find(closed, nonce, 1, true) or again and tok == highest
	for n in string.gmatch(order, '(%w+),') do closed = close(closed, n) end
	-- Whatever was sent more than once may arrive once more at any time.
	if again and fencedlock_write then closed = close(closed, nonce) end
end

if not fencedlock_write then
	if tok ~= highest then last, reply = nonce, 'd' end
	local saved = save(key, tok, last, closed, reply)
	return saved.err and not_marked(saved) or 'ran'
end

local function answer(reply)
	local kind, rest = string.sub(reply, 1, 1), string.sub(reply, 2)
	if kind == 'd' then return 'ran' end
	if kind == 'r' then return {'ran', (cmsgpack.unpack(rest))} end
	if kind == 'e' then return {'error', rest} end
	if kind == 'f' then return {'failed', rest} end
	if kind == 'n' then return {'not written', rest} end
	return {'failed', 'the script did not end'}
end

if last == nonce or over then
	local saved = save(key, tok, last, closed, reply) -- the same mark again, since WAIT looks at what its own connection wrote
	if saved.err then return not_marked(saved) end
	if last == nonce then return answer(reply) end
	return {'closed'}
end

-- The mark first: whatever the write does then, no earlier holder comes after it.
last, reply = nonce, fencedlock_single and 'd' or ''
local saved = save(key, tok, last, closed, reply)
if saved.err then return not_marked(saved) end

if fencedlock_single then
	local err = fencedlock_write()
	if not err then return 'ran' end
	reply = 'n' .. err
else
	-- An error inside of a reply would end go-redis's reading of it: https://github.com/redis/go-redis, Reader.readSlice.
	local function plain(v, depth)
		if type(v) ~= 'table' or depth > 16 then return v end -- cmsgpack goes no deeper
		for k, e in pairs(v) do
			if type(e) == 'table' and e.err then v[k] = tostring(e.err) else plain(e, depth + 1) end
		end
		return v
	end
	local keys, args = {}, {}
	for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
	for i = 4, #ARGV do args[i - 3] = ARGV[i] end
	local ok, result = pcall(fencedlock_write, keys, args)
	if not ok then
		reply = 'f' .. tostring(type(result) == 'table' and result.err or result)
	elseif type(result) == 'table' and result.err then
		reply = 'e' .. tostring(result.err)
	else
		reply = 'r' .. cmsgpack.pack(plain(result, 1))
	end
	redis.set_repl(redis.REPL_ALL) -- the write may have asked for something else
end
save(key, tok, last, closed, reply)
return answer(reply)
