-- A mod of Minetest's server, which scripts/check-leveldb-programs puts into a world. At the step
-- "write" it fills a cube with nodes from a fixed series of random numbers and makes users. At every
-- step it reads the cube and the users, prints what they are as lines that begin with JUDGE, and stops
-- the server.

local low, high = {x = -64, y = -64, z = -64}, {x = 63, y = 63, z = 63}
local users = 200

minetest.register_node("judge:a", {description = "a"})
minetest.register_node("judge:b", {description = "b"})

local function fill()
    local cube = VoxelManip()
    cube:read_from_map(low, high)
    local kinds = {
        minetest.get_content_id("judge:a"),
        minetest.get_content_id("judge:b"),
        minetest.CONTENT_AIR,
    }
    local random = PcgRandom(11)
    local nodes = cube:get_data()
    for n = 1, #nodes do nodes[n] = kinds[random:next(1, #kinds)] end
    cube:set_data(nodes)
    cube:write_to_map(true)
end

local function names()
    local cube = VoxelManip()
    cube:read_from_map(low, high)
    local known, all, filled = {}, {}, 0
    for n, id in ipairs(cube:get_data()) do
        known[id] = known[id] or minetest.get_name_from_content_id(id)
        all[n] = known[id]
        if id ~= minetest.CONTENT_AIR then filled = filled + 1 end
    end
    return filled, minetest.sha1(table.concat(all, ","))
end

local function step()
    local auth = minetest.get_auth_handler()
    if minetest.settings:get("judge_step") == "write" then
        fill()
        for n = 1, users do
            auth.create_auth("user" .. n, "secret" .. n)
            auth.set_privileges("user" .. n, {shout = n % 2 == 0, fly = n % 3 == 0})
        end
        for n = 1, users, 10 do auth.delete_auth("user" .. n) end
    end
    local filled, hash = names()
    print("JUDGE " .. filled .. " nodes, " .. hash)
    local found, secrets = 0, {}
    for n = 1, users do
        local user = auth.get_auth("user" .. n)
        if user then
            found = found + 1
            local may = (user.privileges.shout and "s" or "-") .. (user.privileges.fly and "f" or "-")
            secrets[found] = user.password .. may
        end
    end
    print("JUDGE " .. found .. " users, " .. minetest.sha1(table.concat(secrets, ",")))
    minetest.request_shutdown()
end

minetest.after(0, function()
    minetest.emerge_area(low, high, function(_, _, left)
        if left == 0 then step() end
    end)
end)
