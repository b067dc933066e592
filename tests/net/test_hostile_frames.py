"""Hostile peers at a name server: they get a code or lose their connection; other clients are not affected."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import Counter

import pytest

from pymq.wire.command import decode_command
from tests.golden.frames import load_frames
from tests.net.hostile import (
    FRAMING,
    NAMESRV,
    Hostile,
    Raw,
    Target,
    ask,
    attacked_name_server,
    eventually,
    frame,
    oneway,
    stray_response,
    strike,
    strike_with_mutants,
)
from tests.property.mutations import Mutator

FUZZ_COUNT = int(os.environ.get("PYMQ_HOSTILE_FUZZ_COUNT", "1500"))
FUZZ_SEED = int(os.environ.get("PYMQ_FUZZ_SEED", "5331"))
MIB = 1024 * 1024


def test_every_hostile_frame_is_survived(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> tuple[int, Counter[str]]:
        async with attacked_name_server() as target:
            for attack in NAMESRV:
                await strike(target, attack)
                await target.check_health()
            assert target.server.closed_for["bad-frame"] == target.bad_count
            return len(NAMESRV), target.server.bad_frames

    count, reasons = asyncio.run(scenario())
    assert count > 60
    assert reasons.total() == len(FRAMING) - 1  # one of them is unusual but valid
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    with capsys.disabled():
        print(f"\n{count} hostile frames, all survived; closed for: {dict(reasons.most_common())}")


def test_all_of_them_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> int:
        async with attacked_name_server() as target:

            async def attack_again(attack: Hostile) -> None:
                raw = await Raw.open(target.port)
                await raw.send(attack.raw)
                await raw.receive()
                raw.close()

            for _ in range(3):
                await asyncio.gather(*(attack_again(attack) for attack in NAMESRV))
                await target.check_health()
            await eventually(lambda: target.bad_count == 3 * (len(FRAMING) - 1))
            return 3 * len(NAMESRV)

    count = asyncio.run(scenario())
    with capsys.disabled():
        print(f"\n{count} hostile frames in three volleys, all survived")


@pytest.mark.slow
def test_mutated_captured_frames_are_survived(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A good request follows each frame: it is answered, or the connection was closed and counted."""
    mutator = Mutator([captured.payload for captured in load_frames()], FUZZ_SEED)

    async def scenario() -> tuple[int, Counter[str]]:
        async with attacked_name_server() as target:
            closed = 0
            for _ in range(6):
                closed += await strike_with_mutants(target, [mutator.mutate() for _ in range(FUZZ_COUNT // 6)])
                await target.check_health()
            assert closed == target.bad_count
            return FUZZ_COUNT - closed, target.server.bad_frames

    answered, reasons = asyncio.run(scenario())
    assert min(answered, reasons.total()) > FUZZ_COUNT // 10
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    with capsys.disabled():
        print(
            f"\n{FUZZ_COUNT} mutated frames over sockets (seed {FUZZ_SEED}), all survived: {answered} answered or "
            f"ignored, {reasons.total()} connections closed: {dict(reasons.most_common())}"
        )


def test_one_way_requests_and_stray_responses_are_never_answered() -> None:
    async def scenario() -> None:
        async with attacked_name_server() as target:
            raw = await Raw.open(target.port)
            await raw.send(oneway(105) + oneway(999) + oneway(103) + stray_response(1) + stray_response(-5))
            answer = await raw.call(ask(206))
            assert (answer.code, answer.body) == (0, b'{"topicList":[]}')
            raw.close()

    asyncio.run(scenario())


def test_logging_is_bounded_for_any_input(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with attacked_name_server() as target:
            for _ in range(60):
                raw = await Raw.open(target.port)
                await raw.send(b"\xff" * 8)
                await raw.last()
                raw.close()
            assert target.bad_count == 60

    asyncio.run(scenario())
    lines = [record for record in caplog.records if record.name == "pymq.net.connection_table"]
    assert 1 <= len(lines) < 60


def test_connection_caps_hold_and_freed_places_are_reused() -> None:
    async def scenario() -> None:
        async with attacked_name_server(connectionCountMax="4", connectionCountPerAddressMax="100") as target:
            held = [await Raw.open(target.port) for _ in range(3)]
            for raw in held:
                assert (await raw.call(ask(206))).code == 0
            for _ in range(10):
                refused = await Raw.open(target.port)
                assert await refused.receive() is None
                refused.close()
            assert target.server.closed_for["connection-count"] == 10
            assert (await target.good.call(target.probe)).code == 0
            held.pop().close()
            await eventually(lambda: len(target.server.connections) == 3)
            again = await Raw.open(target.port)
            assert (await again.call(ask(206))).code == 0
            for raw in (*held, again):
                raw.close()

    asyncio.run(scenario())


def test_slow_and_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    async def scenario() -> None:
        async with attacked_name_server() as target:
            drips = [await Raw.open(target.port) for _ in range(20)]
            idle = [await Raw.open(target.port) for _ in range(20)]
            for raw in drips:
                await raw.send(frame(b'{"code":105')[:9])
            request = ask(106)
            await eventually(lambda: len(target.server.connections) == 41)
            for _ in range(5):  # always within a frame, yet each frame is completed in time
                await target.good.send(request + request[:7])
                assert await target.good.receive() is not None
                target.clock.advance(10_000)
                target.server._sweep()
                await target.good.send(request[7:])
                assert await target.good.receive() is not None
            await eventually(lambda: target.server.closed_for["slow-frame"] == 20)
            target.clock.advance(80_000)
            target.server._sweep()
            await eventually(lambda: target.server.closed_for["idle"] == 20)
            await target.check_health()
            for raw in drips + idle:
                assert await raw.receive() is None
                raw.close()

    asyncio.run(scenario())


async def fill_table(target: Target, topic_count: int) -> None:
    """Register a broker with many topics over the good client's connection."""
    topics = ",".join(f'"topic-{i:05}":{{"topicName":"topic-{i:05}"}}' for i in range(topic_count))
    body = f'{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{topics}}}}}}}'.encode()
    identity = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "C", "brokerId": "0"}
    assert (await target.good.call(ask(103, identity, body))).code == 0


def queued_bytes(target: Target) -> int:
    """Return the bytes of answers that the server holds for all its connections."""
    return sum(
        c._out_bytes + (c._transport.get_write_buffer_size() if c._transport else 0) for c in target.server.connections
    )


async def peak_until_idle(target: Target) -> int:
    """Return the peak of held bytes, measured until the server takes requests of the good client only."""
    peak = probes = 0
    before = -1
    while target.server.request_count - probes != before:
        before = target.server.request_count - probes
        for _ in range(50):
            assert (await target.good.call(target.probe)).code == 0
            probes += 1
            peak = max(peak, queued_bytes(target))
    return peak


@pytest.mark.slow
def test_unread_answers_cost_bounded_memory_and_reach_a_late_reader() -> None:
    """Small requests ask for 80 KB thousands of times: the server must hold no more than its write buffer."""
    request_count = 2000

    async def scenario() -> None:
        async with attacked_name_server() as target:
            await fill_table(target, 5000)
            greedy = await Raw.open(target.port)
            greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
            answer_size = len((await target.good.call(ask(206))).body)
            assert request_count * answer_size > 100 * MIB
            greedy.writer.write(ask(206) * request_count)
            peak = await peak_until_idle(target)
            assert 0 < peak < 4 * MIB
            greedy.reader._transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(request_count):
                answer = await greedy.receive()
                assert answer is not None
                assert len(answer.body) == answer_size
                assert queued_bytes(target) < 4 * MIB
            greedy.close()
            await target.check_health()

    asyncio.run(scenario())


def test_a_peer_that_never_reads_is_closed_in_the_end() -> None:
    async def scenario() -> None:
        async with attacked_name_server() as target:
            await fill_table(target, 5000)
            greedy = await Raw.open(target.port)
            greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
            greedy.writer.write(ask(206) * 2000)
            await eventually(lambda: queued_bytes(target) > MIB)
            target.clock.advance(121_000)
            await target.check_health()
            target.server._sweep()
            await eventually(lambda: target.server.closed_for["idle"] >= 1)
            await eventually(lambda: queued_bytes(target) == 0)
            greedy.close()

    asyncio.run(scenario())


def test_a_connection_closed_within_a_frame_gets_no_answer() -> None:
    async def scenario() -> None:
        async with attacked_name_server() as target:
            whole = ask(105, {"topic": "T"})
            for cut in range(len(whole)):
                raw = await Raw.open(target.port)
                await raw.send(whole[:cut])
                with contextlib.suppress(ConnectionError):
                    raw.writer.write_eof()
                assert await raw.receive() is None
                raw.close()
            await target.check_health()
            assert target.bad_count == 0

    asyncio.run(scenario())


def test_the_attack_list_is_consistent() -> None:
    assert len({attack.name for attack in NAMESRV}) == len(NAMESRV)
    answered = [attack for attack in NAMESRV if attack.reason is None]
    for attack in answered:
        decode_command(attack.raw[4:])
