-- The check, the raise of the mark and the write, in one step. fencedlock_write is defined above: the write itself, or nil
-- to seal; fencedlock_single says that it is one command, which happens as a whole or not at all.
--
--   KEYS: the mark, then those of the write
--   ARGV: token, nonce of this operation, 'first' or 'again', nonces to close, then those of the write
--
-- The mark is "1 token nonce closed reply": its version, the highest token seen, the nonce of the last operation, nonces
-- of this token that must not be carried out any more, and how the last operation ended:
--   'd' done, 'r' its packed reply, 'e' the error it returned, 'f' why it broke off, 'n' why its only command was refused;
--   nothing while it runs.
local key, tok, nonce, again = KEYS[1], ARGV[1], ARGV[2], ARGV[3] == 'again'

-- Numbers of Lua are doubles, which merge neighbours beyond 2^53, and its < on texts goes by the server's locale. So
-- the longer one is greater, else the first byte that differs decides.
local function lower(a, b)
	if #a ~= #b then return #a < #b end
	for i = 1, #a do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then return x < y end
	end
	return false
end

local function answer(reply)
	local kind, rest = string.sub(reply, 1, 1), string.sub(reply, 2)
	if kind == 'd' then return {'ran'} end
	if kind == 'r' then return {'ran', (cmsgpack.unpack(rest))} end
	if kind == 'e' then return {'error', rest} end
	if kind == 'f' then return {'failed', rest} end
	if kind == 'n' then return {'refused', rest} end
	return {'failed', 'the script did not end'}
end

local mark = redis.pcall('GET', key)
-- What is refused before anything was written stays an error reply: go-redis leaves a server that has become READONLY.
if type(mark) == 'table' then return mark end
local highest, last, closed, reply = '', '', '', ''
if mark then
	highest, last, closed, reply = string.match(mark, '^1 ([1-9]%d*) (%w+) ([%w,]*) (.*)$')
	if not highest then return {'unreadable', string.sub(mark, 1, 64)} end
	if lower(tok, highest) then return {'stale', highest} end
	if tok ~= highest then last, closed, reply = '', '', '' end -- they were another holder's
end

local function save()
	return redis.pcall('SET', key, '1 ' .. tok .. ' ' .. last .. ' ' .. closed .. ' ' .. reply)
end
local function is_closed(n) return string.find(closed, n, 1, true) end
local function close(n)
	if not is_closed(n) then closed = closed .. n .. ',' end
end

local over = is_closed(nonce) or again and tok == highest
for n in string.gmatch(ARGV[4], '%w+') do close(n) end

if not fencedlock_write then
	if tok ~= highest then last, reply = nonce, 'd' end
	local saved = save()
	return saved.err and saved or {'ran'}
end

-- Whatever was sent more than once may arrive once more at any time.
if again then close(nonce) end

if last == nonce or over then
	local saved = save() -- the same mark again, since WAIT looks at what its own connection wrote
	if saved.err then return saved end
	if last == nonce then return answer(reply) end
	return {'closed'}
end

-- The mark first: whatever the write does then, no earlier holder comes after it.
last, reply = nonce, fencedlock_single and 'd' or ''
local saved = save()
if saved.err then return saved end

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
for i = 5, #ARGV do args[i - 4] = ARGV[i] end
local ok, result = pcall(function()
	local r = fencedlock_write(keys, args)
	if type(r) == 'table' and r.err then return (fencedlock_single and 'n' or 'e') .. tostring(r.err) end
	if fencedlock_single then return 'd' end
	return 'r' .. cmsgpack.pack(plain(r, 1))
end)
if not ok then
	result = 'f' .. tostring(type(result) == 'table' and result.err or result)
end
if result ~= reply then
	reply = result
	redis.set_repl(redis.REPL_ALL) -- the write may have asked for something else
	save()
end
return answer(reply)
