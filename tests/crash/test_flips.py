"""Flips one bit in every byte of a store of 100 messages: log, queues, index, checkpoint, digests, config tables.

Some flips may pass unnoticed until ``pymq store verify`` compares everything, because no format has a checksum for
them: those of an entry or slot of the index (a look-up by key misses messages).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import pytest
from xxhash import xxh3_64_digest

from pymq.errors import StoreError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.integrity import damage
from tests.crash.flips import ALL, MESSAGE_COUNT, TABLE, Flip, FlipSuite
from tests.store.support import ROOT

Tell = Callable[[object], None]

FLIP_STEP = int(os.environ.get("PYMQ_FLIP_STEP", "5"))  # every fifth byte; the bits take turns


@pytest.fixture(autouse=True)
def _without_log_records(caplog: pytest.LogCaptureFixture) -> None:
    """Each refusal is logged with its error. pytest would keep them all, and with each traceback a store."""
    caplog.set_level(logging.CRITICAL + 1)


@pytest.fixture(scope="module")
def suite() -> FlipSuite:
    return FlipSuite()


def know_the_answer(monkeypatch: pytest.MonkeyPatch, suite: FlipSuite) -> None:
    """Replace the search for the flipped bit, which takes 15 ms, by the known answer."""
    log = suite.images[True].files[f"{ROOT}/commitlog/{0:020d}"]
    blocks = {log[at : at + 4096] for at in range(0, len(log), 4096)}

    def find(block: bytes, wanted: bytes, positions: range) -> int | None:
        for original in blocks:
            if xxh3_64_digest(original) == wanted and len(original) == len(block):
                changed = int.from_bytes(block, "little") ^ int.from_bytes(original, "little")
                if changed.bit_count() == 1:
                    return changed.bit_length() - 1
        return search(block, wanted, positions)

    search = damage.find_flip
    monkeypatch.setattr(damage, "find_flip", find)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_flip_in_the_log_costs_only_its_message(
    suite: FlipSuite, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_the_answer(monkeypatch, suite)
    unseen = 0
    positions = suite.positions("commitlog")
    assert len(positions) == suite.end
    for number, (path, at) in enumerate(positions[::FLIP_STEP]):
        seen = suite.check(Flip(path, at, at % 8, number % 2 == 0), keys=(number % MESSAGE_COUNT,))
        assert len(seen.refused) == 1, f"byte {at} of {path} changes nothing"
        assert seen.tagged == MESSAGE_COUNT - 1
        unseen += not seen.found
    assert unseen <= suite.end // MESSAGE_COUNT * 2  # only the damaged message itself
    tell(f"{number + 1:,} flips, each message refused with an error, all others served")


def test_the_flipped_bit_is_searched(suite: FlipSuite) -> None:
    for path, at in suite.positions("commitlog")[:: suite.end // 40]:
        assert len(suite.check(Flip(path, at, (at + 3) % 8, True)).refused) == 1


@pytest.mark.slow
def test_a_flip_in_a_queue_costs_no_message(suite: FlipSuite, tell: Tell) -> None:
    positions = suite.positions("consumequeue")[::FLIP_STEP]
    for number, (path, at) in enumerate(positions):
        seen = suite.check(Flip(path, at, at % 8, number % 2 == 0), keys=ALL[::20])
        assert (seen.refused, seen.tagged, seen.found) == ([], MESSAGE_COUNT, 5)
    tell(f"{len(positions):,} flips")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["index", "checkpoint", "digests"])
def test_a_flip_beside_the_data_costs_no_message(suite: FlipSuite, tell: Tell, part: str) -> None:
    missed = 0
    positions = suite.positions(part)[::FLIP_STEP]
    for number, (path, at) in enumerate(positions):
        seen = suite.check(Flip(path, at, at % 8, number % 2 == 0), keys=ALL if part == "index" else ALL[::20])
        assert (seen.refused, seen.tagged) == ([], MESSAGE_COUNT)
        missed += seen.found < (MESSAGE_COUNT if part == "index" else 5)
    assert part == "index" or not missed
    tell(f"{len(positions):,} flips, look-ups by key that miss in {missed:,}")


def test_a_flip_in_a_table_never_empties_it(tell: Tell) -> None:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    table = JsonTable(files, TABLE)
    versions = [{"topicConfigTable": {"T": {"readQueueNums": n, "perm": 6, "topicName": "T"}}} for n in (4, 8)]
    for version in versions:
        table.save(version)
    raw = files.read_bytes(TABLE)
    counts = {"backup": 0, "other JSON": 0, "same": 0, "refused": 0}
    for at in range(len(raw)):
        for bit in range(8):
            files.nodes[TABLE].data[:] = raw[:at] + bytes((raw[at] ^ (1 << bit),)) + raw[at + 1 :]
            table = JsonTable(files, TABLE)
            try:
                found = table.load()
            except StoreError:
                counts["refused"] += 1
                continue
            if found == versions[0]:
                counts["backup"] += 1
            elif found == versions[1]:
                counts["same"] += 1
            else:
                assert found
                counts["other JSON"] += 1
    assert counts["backup"] > len(raw)
    tell(", ".join(f"{how} {count:,}" for how, count in counts.items()))
