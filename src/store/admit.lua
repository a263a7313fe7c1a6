-- Counts what callers and keys use, of all instances together. Each scope has one hash:
--   all      what all have used: { minute, days, months, places, expiry }
--            minute = { second, requests, tokens, … }, days = { day, requests, tokens, usd, … },
--            months = { month, usd, … },
--            places = { instance, how many, … },
--            expiry = the second in which the hash last got its time to live. Gateways of the
--            version before leave it as it is, and give the hash its time with each change.
--   of:ID    an instance's part of that: { epoch, day, requests, tokens, usd, month, usd, places, {
--            second, requests, tokens, … },
--            its days before that one, its months, { what of the tokens and usd of the day and of
--            the usd of the month is only reserved } }
-- A change of a part changes the sum by the same amount. Seconds, days and months are those of the
-- instance that counts. This server's clock only decides what is too old to be used by any
-- instance.
--
-- KEYS: the scopes. ARGV: the command, the instance, its epoch, JSON, and this server's clock in
-- seconds, as the instance knows it from its last beat: it is behind by the time that the beat's
-- answer took, and by what the clock was set since then. 0 if there was no beat yet.
-- A hash that cannot be read is removed: the answer is that of a scope that is not known, and each
-- instance then sends its whole part. The commands, with their JSON:
--   own    the instance's own counts: [day, requests, tokens, usd, month, usd,
--          places, reserved tokens, usd, usd of the month, 1 if these are all seconds and 0 if
--          the others are as before, second, requests, tokens, …]
--          Answers {1}, or {2} if what was there before could not be read.
--   more   the same, of a scope that got all in this epoch. Answers {1}, or {0, 0, part} as `admit`
--          if the scope does not know the epoch, and then takes nothing.
--   was    what another process sent last under the instance's name, without what was reserved:
--          answers {1, day, requests, tokens, usd, month, usd},
--          or {1} if none did. An epoch's name begins with its process and a dot.
--   admit  of requests that all have these scopes: [[live instances], [the instance's own counts of
--          each scope, as for `own`, or [] if they have not changed], a request, …]
--          A request is [tokens, usd, of these what is no estimate: tokens, usd, a scope's
--          [second, day, month, and its limits in this order or -1: requests a minute, a day,
--          tokens a minute, a day, places, usd a day, a month], …]
--          Own counts come first, and are taken also if the requests are not.
--          Answers {1, an answer to each request}: {1, used…} if it was taken from all, {2, used…}
--          if it was taken from none; and {0, n, part} if the n-th scope does not know the epoch:
--          then nothing was taken at all, and `own` comes first. Part is 1 if it has one of the
--          instance, of another epoch, and 0 if it has none. {0, n, 0, 1} says that what was there
--          could not be read.
--          Used, before: {places, requests, tokens and usd of the day, usd of the month, second,
--          requests, tokens, …}
--   look   [[live instances], second, day, month]: answers {1, used} of one scope, or {0, 0, 0} if
--          it has no part of the instance.
-- Numbers are exact up to 2^53. Sums may be more for a while, where nobody limits what is asked
-- for; no answer is.

-- The time to live of a hash, and the time after which it gets it again.
local EXPIRES, RENEWS = 40 * 86400, 3600
local MOST = 2 ^ 53
-- The last minute is this second and this number of seconds before it.
local MINUTE = 59
-- If a clock was set, this number of other days and months is kept, as gateways do.
local REMEMBERED = 16
local op, me, epoch, said, clock = ARGV[1], ARGV[2], ARGV[3], cjson.decode(ARGV[4]), tonumber(ARGV[5])
if clock == 0 then clock = tonumber(redis.call('TIME')[1]) end

-- Returns where the entry that begins with `name` is, in a list of entries of this width. It is
-- mostly the last one.
local function find(list, width, name)
  local count = #list
  for i = count - width + 1, 1, -width do
    if list[i] == name then return i end
  end
  list[count + 1] = name
  for i = count + 2, count + width do list[i] = 0 end
  return count + 1
end

local function at_least_none(sum) return sum > 0 and sum or 0 end

local function add_second(list, second, requests, tokens)
  local at = find(list, 3, second)
  list[at + 1], list[at + 2] = at_least_none(list[at + 1] + requests), at_least_none(list[at + 2] + tokens)
end

local function add_day(list, day, requests, tokens, usd)
  local at = find(list, 4, day)
  list[at + 1], list[at + 2] = at_least_none(list[at + 1] + requests), at_least_none(list[at + 2] + tokens)
  list[at + 3] = at_least_none(list[at + 3] + usd)
end

local function add_month(list, month, usd)
  local at = find(list, 2, month)
  list[at + 1] = at_least_none(list[at + 1] + usd)
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

-- The seconds are many. They are looked through only if some may be over.
local function write(key, all, mine, over)
  if over or all[1][1] and all[1][1] < clock - 300 then all[1] = since(all[1], 3, clock - 300) end
  local today = math.floor(clock / 86400)
  if #all[2] > 4 then all[2] = since(all[2], 4, today - 2) end
  if #all[3] > 2 then all[3] = since(all[3], 2, today - 62) end
  local renewed = all[5]
  local renews = not renewed or clock < renewed or clock >= renewed + RENEWS
  if renews then all[5] = clock end
  redis.call('HSET', key, 'all', cmsgpack.pack(all), 'of:' .. me, cmsgpack.pack(mine))
  if renews then redis.call('EXPIRE', key, EXPIRES) end
end

-- Moves a part from one day (or month) to another. The counts of a day that is over are kept aside:
-- the day may come again if a clock is set back.
local function turn(part, at, width, aside, to)
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

-- Moves a part to this day and month. Of another day or month nothing is reserved.
local function turn_to(mine, day, month)
  local held = mine[12] or { 0, 0, 0 }
  mine[10], mine[11], mine[12] = mine[10] or {}, mine[11] or {}, held
  if mine[2] ~= day then
    held[1], held[2] = 0, 0
    turn(mine, 2, 4, 10, day)
  end
  if mine[6] ~= month then
    held[3] = 0
    turn(mine, 6, 2, 11, month)
  end
end

-- Puts the instance's own counts in the place of those that its part has.
local function replace(all, mine, own)
  local day, month, seconds, kept = own[1], own[5], all[1], mine[9]
  -- A day and a month that are over keep what was used. If a clock was set back, those that are
  -- still to come do not: the instance now counts on other days.
  if mine[2] > day then add_day(all[2], mine[2], -mine[3], -mine[4], -mine[5]) end
  if mine[6] > month then add_month(all[3], mine[6], -mine[7]) end
  turn_to(mine, day, month)
  add_day(all[2], day, own[2] - mine[3], own[3] - mine[4], own[4] - mine[5])
  add_month(all[3], month, own[6] - mine[7])
  mine[3], mine[4], mine[5], mine[7], mine[8] = own[2], own[3], own[4], own[6], own[7]
  local held = mine[12]
  held[1], held[2], held[3] = own[8], own[9], own[10]
  all[4][find(all[4], 2, me) + 1] = mine[8]
  local before = #kept
  for i = 12, #own, 3 do
    local second, requests, tokens = own[i], own[i + 1], own[i + 2]
    local at = find(kept, 3, second)
    if requests ~= kept[at + 1] or tokens ~= kept[at + 2] then
      add_second(seconds, second, requests - kept[at + 1], tokens - kept[at + 2])
      kept[at + 1], kept[at + 2] = requests, tokens
    end
  end
  if own[11] == 0 or before == 0 then return end
  -- All other seconds are over, or the clock was set.
  local counts = {}
  for i = 12, #own, 3 do counts[own[i]] = true end
  for i = 1, before, 3 do
    if not counts[kept[i]] then
      add_second(seconds, kept[i], -kept[i + 1], -kept[i + 2])
      kept[i + 1], kept[i + 2] = 0, 0
    end
  end
  mine[9] = since(kept, 3, 0)
end

local function exact(sum) return sum < MOST and sum or MOST end

-- Returns what all have used at that time, with the last second of the minute and the requests and
-- tokens of that minute, and the sum of the minute's tokens.
local function used_of(all, live, second, day, month)
  local places, requests, tokens, usd, of_month = 0, 0, 0, 0, 0
  local of_places, days, months, ring = all[4], all[2], all[3], all[1]
  for i = 1, #of_places, 2 do
    if of_places[i] == me or live[of_places[i]] then places = places + of_places[i + 1] end
  end
  for i = 1, #days, 4 do
    if days[i] == day then requests, tokens, usd = days[i + 1], exact(days[i + 2]), exact(days[i + 3]) end
  end
  for i = 1, #months, 2 do
    if months[i] == month then of_month = exact(months[i + 1]) end
  end
  -- Clocks may differ by less than a minute either way.
  local of_minute, counted, last = 0, 0, 0
  local from, to = second - MINUTE, second + MINUTE
  for i = 1, #ring, 3 do
    local at = ring[i]
    if at >= from and at <= to then
      of_minute, counted = of_minute + ring[i + 1], counted + ring[i + 2]
      if at > last then last = at end
    end
  end
  return { places, requests, tokens, usd, of_month, last > 0 and last or second, of_minute, exact(counted) }, counted
end

-- Returns the same, with each second of the minute.
local function in_full(used, ring, second)
  local full, n = { unpack(used, 1, 5) }, 5
  for i = 1, #ring, 3 do
    if ring[i] >= second - MINUTE and ring[i] <= second + MINUTE then
      full[n + 1], full[n + 2], full[n + 3] = ring[i], ring[i + 1], exact(ring[i + 2])
      n = n + 3
    end
  end
  return full
end

local function live_instances()
  local live = {}
  for _, instance in ipairs(said[1]) do live[instance] = true end
  return live
end

-- Compares without a sum, because a sum may be too large to be exact. A request that costs nothing
-- passes even if the limit is overspent. A request that is too large
-- only by an estimate passes if nothing else is counted.
local function exceeds(limit, sum, asked, sure)
  return limit >= 0 and asked > 0 and asked > limit - sum and not (limit > 0 and sum == 0 and sure <= limit)
end

-- Takes what a request asks for from all scopes, or from none. `swept` says which scopes have
-- seconds that are over.
local function decide(request, live, alls, parts, swept)
  local tokens, usd, sure_tokens, sure_usd = request[1], request[2], request[3], request[4]
  local answer, over = { 1 }, false
  for n, all in ipairs(alls) do
    local ask = request[n + 4]
    local used, counted = used_of(all, live, ask[1], ask[2], ask[3])
    over = over or exceeds(ask[4], used[7], 1, 1) or exceeds(ask[5], used[2], 1, 1) or exceeds(ask[8], used[1], 1, 1)
      or exceeds(ask[6], counted, tokens, sure_tokens) or exceeds(ask[7], used[3], tokens, sure_tokens)
      or exceeds(ask[9], used[4], usd, sure_usd) or exceeds(ask[10], used[5], usd, sure_usd)
    answer[n + 1] = used
  end
  if over then
    answer[1] = 2
    for n, all in ipairs(alls) do answer[n + 1] = in_full(answer[n + 1], all[1], request[n + 4][1]) end
    return answer, false
  end
  for n, all in ipairs(alls) do
    local mine, ask = parts[n], request[n + 4]
    local second, day, month, kept = ask[1], ask[2], ask[3], mine[9]
    local first = second - MINUTE
    -- This is done once a second. A sum over the minute leaves out old seconds in any case.
    if kept[1] and kept[1] < first then
      for i = 1, #kept, 3 do
        if kept[i] < first then add_second(all[1], kept[i], -kept[i + 1], -kept[i + 2]) end
      end
      kept, swept[n] = since(kept, 3, first), true
      mine[9] = kept
    end
    -- As gateways do: counts each second only if there is a limit for the minute.
    if ask[4] >= 0 or ask[6] >= 0 then
      add_second(kept, second, 1, tokens)
      add_second(all[1], second, 1, tokens)
    end
    turn_to(mine, day, month)
    local held = mine[12]
    held[1], held[2], held[3] = held[1] + tokens, held[2] + usd, held[3] + usd
    mine[3], mine[4], mine[5], mine[7], mine[8] = mine[3] + 1, mine[4] + tokens, mine[5] + usd, mine[7] + usd, mine[8] + 1
    all[4][find(all[4], 2, me) + 1] = mine[8]
    add_day(all[2], day, 1, tokens, usd)
    add_month(all[3], month, usd)
  end
  return answer, true
end

local function admit()
  local live, own, alls, parts, swept = live_instances(), said[2], {}, {}, {}
  for n, key in ipairs(KEYS) do
    local all, mine = read(key)
    if not mine or mine[1] ~= epoch then return { 0, n - 1, mine and 1 or 0 } end
    if own[n][1] then replace(all, mine, own[n]) end
    alls[n], parts[n] = all, mine
  end
  local answers, taken = { 1 }, false
  for i = 3, #said do
    local answer, is_taken = decide(said[i], live, alls, parts, swept)
    answers[i - 1], taken = answer, taken or is_taken
  end
  for n, key in ipairs(KEYS) do
    if taken or own[n][1] then write(key, alls[n], parts[n], swept[n]) end
  end
  return answers
end

local run = admit
-- Functions are made anew with each call: most calls need none of these.
if op ~= 'admit' then
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

  local function own()
    local key = KEYS[1]
    local all, mine = read(key)
    local is_known = mine and mine[1] == epoch
    if op == 'more' and not is_known then return { 0, 0, mine and 1 or 0 } end
    if not is_known then forget(key, all, said[1], said[5]) end
    mine = mine or { '', said[1], 0, 0, 0, said[5], 0, 0, {} }
    mine[1] = epoch
    replace(all, mine, said)
    write(key, all, mine, op == 'own')
    return { 1 }
  end

  local function was()
    local _, mine = read(KEYS[1])
    local function process(name) return string.match(name, '^[^.]*') end
    if not mine or not mine[12] or process(mine[1]) == process(epoch) then return { 1 } end
    local function settled(sum, reserved)
      local rest = sum - reserved
      return rest < 0 and 0 or exact(rest)
    end
    local held = mine[12]
    return {
      1, mine[2], settled(mine[3], mine[8]), settled(mine[4], held[1]), settled(mine[5], held[2]), mine[6], settled(mine[7], held[3])
    }
  end

  local function look()
    local all, mine = read(KEYS[1])
    if not mine then return { 0, 0, 0 } end
    local second, day, month = said[2], said[3], said[4]
    return { 1, in_full(used_of(all, live_instances(), second, day, month), all[1], second) }
  end

  run = op == 'was' and was or op == 'look' and look or own
end

local runs, answer = pcall(run)
if runs then return answer end

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
  if all[5] and type(all[5]) ~= 'number' then return false end
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
