"""Large requests are served a few at a time, hosts in turn."""

from __future__ import annotations

import asyncio

from pymq.proxy.rpc.request_room import RequestRoom


def test_hosts_take_turns_and_nothing_is_lost_when_a_call_ends_meanwhile() -> None:
    async def work() -> None:
        room = RequestRoom(10)
        assert await room.enter("a", 6) == 6
        assert await room.enter("a", 4) == 4
        order: list[str] = []

        async def enter(name: str, host: str, size: int) -> None:
            taken = await room.enter(host, size)
            order.append(name)
            await asyncio.sleep(0)
            room.leave(taken)

        tasks = [asyncio.create_task(enter(f"a{number}", "a", 10)) for number in range(3)]
        tasks += [asyncio.create_task(enter("b0", "b", 99)), asyncio.create_task(enter("c0", "c", 1))]
        await asyncio.sleep(0)
        assert order == []
        tasks[1].cancel()
        room.leave(6)
        room.leave(4)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == ["a0", "b0", "c0", "a2"], "one host's requests don't stand before another's"
        assert room.taken_bytes == 0

    asyncio.run(work())


def test_a_call_that_ends_with_its_turn_gives_the_room_on() -> None:
    async def work() -> None:
        room = RequestRoom(10)
        taken = await room.enter("a", 10)
        first, second = asyncio.create_task(room.enter("a", 10)), asyncio.create_task(room.enter("a", 10))
        await asyncio.sleep(0)
        room.leave(taken)
        first.cancel()
        assert await second == 10
        room.leave(10)
        assert room.taken_bytes == 0

    asyncio.run(work())
