-- The check, the raise of the mark and the write, in one step. fencedlock_write is defined above: the write itself, or nil
-- to seal; fencedlock_single says that it is one command, which happens as a whole or not at all.
--
--   KEYS: those of the write, then the mark
--   ARGV: those of the write, then token, Guard, number of the operation, and "again" if it may have been carried out before
--
-- The mark is "1 token entries reply": its version, the highest token seen, the last operation of each of the eight Guards
-- that wrote last, newest first, and the reply to the newest. An entry has 34 bytes: the Guard's 16, the operation's
-- number in 16 digits, how it ended, and a comma. It ended:
--   'd' done, 'r' with a packed reply, 'e' with an error that it returned, 'f' broken off, 'n' when its only command was
--   refused; 'u' while it runs.
-- Numbers of a Guard rise, and it waits for the end of one operation before it begins the next. So what comes with a lower
-- number than the entry has was given up, and with the same one it is a repetition.
--
-- The answer is 'ran', or a list: 'ran' and the reply, 'error', 'failed' or 'not written' and the text of an error, 'gone'
-- and how it ended, 'not marked' and why the mark was neither read nor written, 'not marked again' the same of what was
-- carried out before, 'stale' and the mark, 'overtaken',
-- 'untold', or 'unreadable' and how the mark begins. Functions are made where they are needed and capture nothing, since
-- that takes longer than most of what they do.
local again = table.remove(ARGV) -- what remains in both is the write's own
local number = table.remove(ARGV)
local me = table.remove(ARGV)
local tok = table.remove(ARGV)
local key = table.remove(KEYS)
local highest, entries, reply = '', '', ''

local function not_marked(e)
	if string.find(e.err, 'READONLY ', 1, true) then return e end -- go-redis leaves a server that answers so
	return {'not marked', e.err}
end

local function save(key, tok, entries, reply)
	return redis.pcall('SET', key, '1 ' .. tok .. ' ' .. entries .. ' ' .. reply)
end

-- Numbers of Lua are doubles, which merge neighbours beyond 2^53, and its < on texts goes by the server's locale. So the
-- longer one is greater, else the first byte that differs decides.
local function less(a, b)
	if #a ~= #b then return #a < #b end
	for i = 1, #a do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then return x < y end
	end
	return false
end

local mark = redis.pcall('GET', key)
if type(mark) == 'table' then return not_marked(mark) end
if mark then
	highest, entries, reply = string.match(mark, '^1 ([1-9]%d*) ([%w,]*) (.*)$')
	if not highest or #entries % 34 ~= 0 or #entries > 8 * 34 then return {'unreadable', string.sub(mark, 1, 64)} end
end

local function answer(how, reply)
	if how == 'd' then return 'ran' end
	if how == 'r' then return {'ran', (cmsgpack.unpack(reply))} end
	if how == 'e' then return {'error', reply} end
	if how == 'f' then return {'failed', reply} end
	if how == 'n' then return {'not written', reply} end
	return {'failed', 'the script did not end'}
end

local others, at = entries, string.find(entries, me, 1, true)
if at then
	local last, how = string.sub(entries, at + 16, at + 31), string.sub(entries, at + 32, at + 32)
	if last == number then
		local saved = save(key, highest, entries, reply) -- the same mark again, since WAIT looks at what its own connection wrote
		if saved.err then return {'not marked again', saved.err} end
		if at == 1 then return answer(how, reply) end
		if how == 'd' then return 'ran' end
		return {'gone', how}
	end
	if less(number, last) then return {'overtaken'} end
	others = string.sub(entries, 1, at - 1) .. string.sub(entries, at + 34)
elseif again == 'again' and #entries == 8 * 34 and not less(highest, tok) then
	return {'untold'} -- its entry would have gone since
end
if tok ~= highest and less(tok, highest) then return {'stale', highest} end
others = string.sub(others, 1, 7 * 34)

-- The mark first: whatever the write does then, no earlier holder comes after it.
local how = (fencedlock_single or not fencedlock_write) and 'd' or 'u'
local saved = save(key, tok, me .. number .. how .. ',' .. others, '')
if saved.err then return not_marked(saved) end
if not fencedlock_write then return 'ran' end

if fencedlock_single then
	local err = fencedlock_write()
	if not err then return 'ran' end
	how, reply = 'n', err
else
	-- An error inside of a reply would end go-redis's reading of it: https://github.com/redis/go-redis, Reader.readSlice.
	local function plain(v, depth)
		if type(v) ~= 'table' or depth > 16 then return v end -- cmsgpack goes no deeper
		for k, e in pairs(v) do
			if type(e) == 'table' and e.err then v[k] = tostring(e.err) else plain(e, depth + 1) end
		end
		return v
	end
	local ok, result = pcall(fencedlock_write, KEYS, ARGV)
	if not ok then
		how, reply = 'f', tostring(type(result) == 'table' and result.err or result)
	elseif type(result) == 'table' and result.err then
		how, reply = 'e', tostring(result.err)
	else
		how, reply = 'r', cmsgpack.pack(plain(result, 1))
	end
	redis.set_repl(redis.REPL_ALL) -- the write may have asked for something else
end
save(key, tok, me .. number .. how .. ',' .. others, reply)
return answer(how, reply)
