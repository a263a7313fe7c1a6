-- Counts what callers and keys use, of all instances together. Each scope has one hash:
--   all      what all have used: { minute, days, months, places }
--            minute = { second, requests, tokens, … }, days = { day, requests, tokens, usd, … },
--            months = { month, usd, … },
--            places = { instance, how many, … }
--   of:ID    an instance's part of that: { epoch, day, requests, tokens, usd, month, usd, places, {
--            second, requests, tokens, … },
--            its days before that one, its months, { what of the tokens and usd of the day and of
--            the usd of the month is only reserved } }
-- A change of a part changes the sum by the same amount. Seconds, days and months are those of the
-- instance that counts. This server's clock only decides what is too old to be used by any
-- instance.
--
-- KEYS: the scopes. ARGV: the command, the instance, its epoch, and JSON:
-- A hash that cannot be read is removed: the answer is that of a scope that is not known, and each
-- instance then sends its whole part.
--   own    the instance's whole part, counted by itself: [day, requests, tokens, usd, month, usd,
--          places, reserved tokens, usd, usd of the month,
--          second, requests, tokens, …]
--          Answers {1}, or {2} if what was there before could not be read.
--   was    what another process sent last under the instance's name, without what was reserved:
--          answers {1, day, requests, tokens, usd, month, usd},
--          or {1} if none did. An epoch's name begins with its process and a dot.
--   admit  [[live instances], tokens, usd, of these what is no estimate: tokens, usd, a scope's
--          [second, day, month, and its limits in this order or -1: requests a minute, a day,
--          tokens a minute, a day, places, usd a day, a month], …]
--          Answers {1, used…} if it was taken from all, {2, used…} if it was taken from none, and
--          {0, n, part} if the n-th scope does not know the epoch:
--          then `own` comes first. Part is 1 if it has one of the instance, of another epoch, and
--          0 if it has none. {0, n, 0, 1} says that what was there could not be read.
--          Used, before: {places, requests, tokens and usd of the day, usd of the month, second,
--          requests, tokens, …}
--   look   the same of one scope without limits: answers {1, used} and takes nothing, or {0, 0, 0}
--          if it has no part of the instance.
-- Numbers are exact up to 2^53. Sums may be more for a while, where nobody limits what is asked
-- for; no answer is.

local EXPIRES, MOST = 40 * 86400, 2 ^ 53
-- The last minute is this second and this number of seconds before it.
local MINUTE = 59
-- If a clock was set, this number of other days and months is kept, as gateways do.
local REMEMBERED = 16
local op, me, epoch, said = ARGV[1], ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local clock = tonumber(redis.call('TIME')[1])
local today = math.floor(clock / 86400)

-- Adds to the entry that begins with `name`, in a list of entries of this width. It is mostly the
-- last one.
local function add(list, width, name, ...)
  local at
  for i = #list - width + 1, 1, -width do
    if list[i] == name then at = i break end
  end
  if not at then
    at = #list + 1
    list[at] = name
    for i = 1, width - 1 do list[at + i] = 0 end
  end
  for i = 1, width - 1 do
    local sum = list[at + i] + select(i, ...)
    list[at + i] = sum > 0 and sum or 0
  end
end

-- Returns the entries that begin with `first` or later and are not empty.
local function since(list, width, first)
  local kept = {}
  for i = 1, #list, width do
    local some = false
    for j = i + 1, i + width - 1 do some = some or list[j] > 0 end
    if some and list[i] >= first then
      for j = i, i + width - 1 do kept[#kept + 1] = list[j] end
    end
  end
  return kept
end

local function read(key)
  local got = redis.call('HMGET', key, 'all', 'of:' .. me)
  return got[1] and cmsgpack.unpack(got[1]) or { {}, {}, {}, {} }, got[2] and cmsgpack.unpack(got[2])
end

local function set_places(all, n)
  local places = all[4]
  for i = 1, #places, 2 do
    if places[i] == me then
      places[i + 1] = n
      return
    end
  end
  places[#places + 1] = me
  places[#places + 1] = n
end

-- The seconds are many. They are looked through only if some may be over.
local function write(key, all, mine, over)
  if over or all[1][1] and all[1][1] < clock - 300 then all[1] = since(all[1], 3, clock - 300) end
  if #all[2] > 4 then all[2] = since(all[2], 4, today - 2) end
  if #all[3] > 2 then all[3] = since(all[3], 2, today - 62) end
  redis.call('HSET', key, 'all', cmsgpack.pack(all), 'of:' .. me, cmsgpack.pack(mine))
  redis.call('EXPIRE', key, EXPIRES)
end

-- Moves a part from one day (or month) to another. The counts of a day that is over are kept aside:
-- the day may come again if a clock is set back.
local function turn(part, at, width, aside, to)
  if part[at] == to then return end
  local kept, back = {}, {}
  for i = math.max(1, #(part[aside] or {}) - REMEMBERED * width + 1), #(part[aside] or {}), width do
    local list = part[aside][i] == to and back or kept
    for j = 0, width - 1 do list[#list + 1] = part[aside][i + j] end
  end
  if part[at] < to then
    for j = 0, width - 1 do kept[#kept + 1] = part[at + j] end
  end
  part[at] = to
  for j = 1, width - 1 do part[at + j] = back[j + 1] or 0 end
  part[aside] = kept
end

-- Removes parts of instances that will not come back, once their day and month are over.
local function forget(key, all, day, month)
  local entries, gone = redis.call('HGETALL', key), {}
  for i = 1, #entries, 2 do
    local name = entries[i]
    if name ~= 'all' and name ~= 'of:' .. me then
      local part = cmsgpack.unpack(entries[i + 1])
      if part[2] < day - 1 and part[6] < month then
        redis.call('HDEL', key, name)
        gone[string.sub(name, 4)] = true
      end
    end
  end
  local places = {}
  for i = 1, #all[4], 2 do
    if not gone[all[4][i]] then
      places[#places + 1] = all[4][i]
      places[#places + 1] = all[4][i + 1]
    end
  end
  all[4] = places
end

local live = { [me] = true }
if op == 'admit' or op == 'look' then
  for _, instance in ipairs(said[1]) do live[instance] = true end
end

local function told(sum) return sum < MOST and sum or MOST end

local function run()
  if op == 'own' then
    local key = KEYS[1]
    local all, old = read(key)
    local new = { epoch, said[1], said[2], said[3], said[4], said[5], said[6], said[7], {} }
    for i = 11, #said do new[9][i - 10] = said[i] end
    if not old or old[1] ~= epoch then forget(key, all, new[2], new[6]) end
    old = old or { '', new[2], 0, 0, 0, new[6], 0, 0, {} }
    -- A day and a month that are over keep what was used. If a clock was set back, those that are
    -- still to come do not: the instance now counts on other days.
    if old[2] > new[2] then add(all[2], 4, old[2], -old[3], -old[4], -old[5]) end
    if old[6] > new[6] then add(all[3], 2, old[6], -old[7]) end
    turn(old, 2, 4, 10, new[2])
    turn(old, 6, 2, 11, new[6])
    add(all[2], 4, new[2], new[3] - old[3], new[4] - old[4], new[5] - old[5])
    add(all[3], 2, new[6], new[7] - old[7])
    new[10], new[11], new[12] = old[10] or {}, old[11] or {}, { said[8], said[9], said[10] }
    -- Mostly only the last second has changed.
    local was = {}
    for i = 1, #old[9], 3 do was[old[9][i]] = i end
    for i = 1, #new[9], 3 do
      local second, requests, tokens, at = new[9][i], new[9][i + 1], new[9][i + 2], was[new[9][i]]
      if at then
        was[second] = nil
        requests, tokens = requests - old[9][at + 1], tokens - old[9][at + 2]
      end
      if requests ~= 0 or tokens ~= 0 then add(all[1], 3, second, requests, tokens) end
    end
    for second, at in pairs(was) do add(all[1], 3, second, -old[9][at + 1], -old[9][at + 2]) end
    set_places(all, new[8])
    write(key, all, new, true)
    return { 1 }
  end

  if op == 'was' then
    local _, mine = read(KEYS[1])
    local function process(name) return string.match(name, '^[^.]*') end
    if not mine or not mine[12] or process(mine[1]) == process(epoch) then return { 1 } end
    local function settled(sum, reserved)
      local rest = sum - reserved
      return rest < 0 and 0 or rest < MOST and rest or MOST
    end
    local held = mine[12]
    return {
      1, mine[2], settled(mine[3], mine[8]), settled(mine[4], held[1]), settled(mine[5], held[2]), mine[6], settled(mine[7], held[3])
    }
  end

  -- Returns what all have used at that time: requests and tokens of that minute, and its last second.
  local function used_of(all, second, day, month)
    local used = { 0, 0, 0, 0, 0 }
    for i = 1, #all[4], 2 do
      if live[all[4][i]] then used[1] = used[1] + all[4][i + 1] end
    end
    for i = 1, #all[2], 4 do
      if all[2][i] == day then used[2], used[3], used[4] = all[2][i + 1], told(all[2][i + 2]), told(all[2][i + 3]) end
    end
    for i = 1, #all[3], 2 do
      if all[3][i] == month then used[5] = told(all[3][i + 1]) end
    end
    -- Clocks may differ by less than a minute either way.
    local ring, requests, counted, last = all[1], 0, 0, 0
    local from, to = second - MINUTE, second + MINUTE
    for i = 1, #ring, 3 do
      local at = ring[i]
      if at >= from and at <= to then
        requests, counted = requests + ring[i + 1], counted + ring[i + 2]
        if at > last then last = at end
      end
    end
    return used, requests, counted, last > 0 and last or second
  end

  -- Returns the same, and each second of the minute.
  local function in_full(used, ring, second)
    local n = #used
    for i = 1, #ring, 3 do
      if ring[i] >= second - MINUTE and ring[i] <= second + MINUTE then
        used[n + 1], used[n + 2], used[n + 3] = ring[i], ring[i + 1], told(ring[i + 2])
        n = n + 3
      end
    end
    return used
  end

  if op == 'look' then
    local all, mine = read(KEYS[1])
    if not mine then return { 0, 0, 0 } end
    return { 1, in_full((used_of(all, unpack(said[6]))), all[1], said[6][1]) }
  end

  -- Compares without a sum, because a sum may be too large to be exact. A request that costs nothing
  -- passes even if the limit is overspent. A request that is too large
  -- only by an estimate passes if nothing else is counted.
  local function exceeds(limit, sum, asked, sure)
    return limit >= 0 and asked > 0 and asked > limit - sum and not (limit > 0 and sum == 0 and sure <= limit)
  end

  local tokens, usd, sure_tokens, sure_usd = said[2], said[3], said[4], said[5]
  local scopes, answer, over = {}, { 1 }, false
  for n, key in ipairs(KEYS) do
    local all, mine = read(key)
    if not mine or mine[1] ~= epoch then return { 0, n - 1, mine and 1 or 0 } end
    local ask = said[n + 5]
    local used, requests, counted, last = used_of(all, ask[1], ask[2], ask[3])
    over = exceeds(ask[4], requests, 1, 1) or exceeds(ask[5], used[2], 1, 1) or exceeds(ask[8], used[1], 1, 1)
      or exceeds(ask[6], counted, tokens, sure_tokens) or exceeds(ask[7], used[3], tokens, sure_tokens)
      or exceeds(ask[9], used[4], usd, sure_usd) or exceeds(ask[10], used[5], usd, sure_usd) or over
    scopes[n] = { all, mine, used, { last, requests, told(counted) } }
  end
  if over then
    answer[1] = 2
    for n, scope in ipairs(scopes) do answer[n + 1] = in_full(scope[3], scope[1][1], said[n + 5][1]) end
    return answer
  end
  for n, key in ipairs(KEYS) do
    local all, mine, used, minute = unpack(scopes[n])
    local second, day, month = said[n + 5][1], said[n + 5][2], said[n + 5][3]
    local first, kept = second - MINUTE, mine[9]
    -- This is done once a second. A sum over the minute leaves out old seconds in any case.
    local over = kept[1] and kept[1] < first
    if over then
      kept = {}
      for i = 1, #mine[9], 3 do
        if mine[9][i] < first then
          add(all[1], 3, mine[9][i], -mine[9][i + 1], -mine[9][i + 2])
        else
          for j = i, i + 2 do kept[#kept + 1] = mine[9][j] end
        end
      end
    end
    -- As gateways do: counts each second only if there is a limit for the minute.
    if said[n + 5][4] >= 0 or said[n + 5][6] >= 0 then
      add(kept, 3, second, 1, tokens)
      add(all[1], 3, second, 1, tokens)
    end
    mine[9] = kept
    mine[10], mine[11] = mine[10] or {}, mine[11] or {}
    local held = mine[12] or { 0, 0, 0 }
    if mine[2] ~= day then held[1], held[2] = 0, 0 end
    if mine[6] ~= month then held[3] = 0 end
    turn(mine, 2, 4, 10, day)
    turn(mine, 6, 2, 11, month)
    mine[12] = { held[1] + tokens, held[2] + usd, held[3] + usd }
    mine[3], mine[4], mine[5], mine[7], mine[8] = mine[3] + 1, mine[4] + tokens, mine[5] + usd, mine[7] + usd, mine[8] + 1
    add(all[2], 4, day, 1, tokens, usd)
    add(all[3], 2, month, usd)
    set_places(all, mine[8])
    write(key, all, mine, over)
    for i = 1, 3 do used[5 + i] = minute[i] end
    answer[n + 1] = used
  end
  return answer
end

local function are_numbers(list, width)
  if type(list) ~= 'table' or #list % width ~= 0 then return false end
  for i = 1, #list do
    if type(list[i]) ~= 'number' then return false end
  end
  return true
end

local function is_sum(all)
  if type(all) ~= 'table' or type(all[4]) ~= 'table' or #all[4] % 2 ~= 0 then return false end
  for i = 1, #all[4], 2 do
    if type(all[4][i]) ~= 'string' or type(all[4][i + 1]) ~= 'number' then return false end
  end
  return are_numbers(all[1], 3) and are_numbers(all[2], 4) and are_numbers(all[3], 2)
end

local function is_part(part)
  if type(part) ~= 'table' or type(part[1]) ~= 'string' then return false end
  for i = 2, 8 do
    if type(part[i]) ~= 'number' then return false end
  end
  return are_numbers(part[9], 3) and are_numbers(part[10] or {}, 4) and are_numbers(part[11] or {}, 2)
    and (not part[12] or are_numbers(part[12], 3) and #part[12] == 3)
end

-- Returns whether a scope can be read, or is not there.
local function is_readable(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'hash' then return kind == 'none' end
  local entries = redis.call('HGETALL', key)
  for i = 1, #entries, 2 do
    local unpacks, value = pcall(cmsgpack.unpack, entries[i + 1])
    if not unpacks or not (entries[i] == 'all' and is_sum or is_part)(value) then return false end
  end
  return true
end

local runs, answer = pcall(run)
if runs then return answer end
-- The scopes are looked through only now: what somebody else wrote there must not stop all others.
for n, key in ipairs(KEYS) do
  if not is_readable(key) then
    redis.call('DEL', key)
    if op ~= 'own' then return { 0, n - 1, 0, 1 } end
    run()
    return { 2 }
  end
end
error(answer, 0)
