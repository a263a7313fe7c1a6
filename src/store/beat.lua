-- Notes that an instance lives. Returns which others live, and which accounts others found
-- broken.
-- KEYS: the instances, the word of the time since the store was empty, the hints. ARGV: the
-- instance, its process, whether it has sent all its counts, a word for a store that is empty,
-- hints as JSON: [name, milliseconds, …], 0 to take one back, whether the store has lost what
-- was sent: then it counts as empty, and the word that the instance heard last, or -. An
-- instance that has not heard the present word has not sent its counts since then, and does not
-- know what was lost.
-- Answers {that word, how long ago it was said in milliseconds, the time in milliseconds, how
-- many live instances have sent all, live instances, hints as {name, milliseconds, …}, the last
-- process that used this instance's name}.
-- For each instance these are kept: the time of its last beat, whether it has sent all, the word
-- that it heard (older gateways leave it out), and its process.

local LIVES = 10000
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local born = redis.call('GET', KEYS[2])
if not born or ARGV[6] == '1' and string.match(born, '^%S+') == ARGV[7] then
  born = string.format('%s %.0f', ARGV[4], now)
  redis.call('SET', KEYS[2], born)
end
local word, since = string.match(born, '^(%S+) (%d+)$')

local process = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '(%S+)$') or ''
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s %s %s', now, ARGV[3], ARGV[7], ARGV[2]))
local live, complete = {}, 0
local instances = redis.call('HGETALL', KEYS[1])
for i = 1, #instances, 2 do
  local at, all, heard = string.match(instances[i + 1], '^(%d+) (%d) (%S+)')
  local age = now - tonumber(at)
  if age < LIVES then
    live[#live + 1] = instances[i]
    if heard == word then complete = complete + tonumber(all) end
  elseif age > 86400000 then
    redis.call('HDEL', KEYS[1], instances[i])
  end
end

local told = cjson.decode(ARGV[5])
for i = 1, #told, 2 do
  if told[i + 1] == 0 then
    redis.call('HDEL', KEYS[3], told[i])
  else
    redis.call('HSET', KEYS[3], told[i], string.format('%.0f', now + told[i + 1]))
  end
end
local hints = {}
local all = redis.call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  local left = tonumber(all[i + 1]) - now
  if left > 0 then
    hints[#hints + 1] = all[i]
    hints[#hints + 1] = left
  else
    redis.call('HDEL', KEYS[3], all[i])
  end
end
return { word, now - tonumber(since), now, complete, live, hints, process }
