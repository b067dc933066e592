"""Hostile peers at a broker: it stores none of their messages, and other clients are not affected."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter

import pytest

from pymq.model.record import decode_records
from tests.golden.frames import load_frames
from tests.net.hostile import (
    BROKER,
    FRAMING,
    PULL,
    Raw,
    Target,
    ask,
    attacked_broker,
    eventually,
    strike,
    strike_with_mutants,
)
from tests.property.mutations import Mutator

FUZZ_COUNT = int(os.environ.get("PYMQ_HOSTILE_FUZZ_COUNT", "1500"))
FUZZ_SEED = int(os.environ.get("PYMQ_FUZZ_SEED", "5331"))
MIB = 1024 * 1024


async def pull_all(target: Target) -> list[bytes]:
    """Return the bodies in queue 0 of the topic T."""
    bodies: list[bytes] = []
    while True:
        answer = await target.good.call(ask(11, {**PULL, "queueOffset": str(len(bodies))}))
        if answer.code != 0:
            return bodies
        bodies += [message.body for message in decode_records(answer.body)]


@pytest.mark.slow
def test_every_hostile_frame_is_survived(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> Counter[str]:
        async with attacked_broker() as (target, broker):
            assert broker.parts is not None
            topics_before = set(broker.parts.metadata.topics.all())
            for attack in BROKER:
                await strike(target, attack)
                await target.check_health()
            # Two good sends for each check, and no message of an attacker.
            assert await pull_all(target) == [b"a good message"] * (2 * len(BROKER) + 2)
            assert {name for name in broker.parts.metadata.topics.all() if not name.startswith("%")} == topics_before
            return target.server.bad_frames

    reasons = asyncio.run(scenario())
    assert reasons.total() == len(FRAMING) - 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    with capsys.disabled():
        print(f"\n{len(BROKER)} hostile frames at a broker, all survived; closed for: {dict(reasons.most_common())}")


@pytest.mark.slow
def test_mutated_captured_frames_are_survived(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    mutator = Mutator([captured.payload for captured in load_frames()], FUZZ_SEED + 9)

    async def scenario() -> tuple[int, Counter[str]]:
        async with attacked_broker() as (target, _):
            closed = 0
            for _ in range(6):
                closed += await strike_with_mutants(target, [mutator.mutate() for _ in range(FUZZ_COUNT // 6)])
                await target.check_health()
            assert closed == target.bad_count
            assert b"a good message" in await pull_all(target)
            return FUZZ_COUNT - closed, target.server.bad_frames

    answered, reasons = asyncio.run(scenario())
    assert min(answered, reasons.total()) > FUZZ_COUNT // 10
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    with capsys.disabled():
        print(
            f"\n{FUZZ_COUNT} mutated frames at a broker (seed {FUZZ_SEED + 9}), all survived: {answered} answered or "
            f"ignored, {reasons.total()} connections closed: {dict(reasons.most_common())}"
        )


def test_unread_pull_answers_cost_bounded_memory() -> None:
    """A pull of 100 bytes yields up to 256 KB: thousands at once must wait for the reader."""

    async def scenario() -> None:
        async with attacked_broker() as (target, _):
            big = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
            for _ in range(20):
                assert (await target.good.call(ask(310, big, bytes(20_000)))).code == 0
            greedy = await Raw.open(target.port)
            greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
            greedy.writer.write(ask(11, PULL) * 2000)
            peak = probes = 0
            before = -1
            while target.server.request_count - probes != before:
                before = target.server.request_count - probes
                for _ in range(50):
                    assert (await target.good.call(target.probe)).code == 0
                    probes += 1
                    peak = max(peak, held_bytes(target))
            assert 0 < peak < 4 * MIB
            greedy.close()
            await eventually(lambda: held_bytes(target) == 0)
            await target.check_health()

    asyncio.run(scenario())


def held_bytes(target: Target) -> int:
    return sum(
        c._out_bytes + (c._transport.get_write_buffer_size() if c._transport else 0) for c in target.server.connections
    )
