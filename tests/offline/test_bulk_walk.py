"""The walk by columns equals the plain walk, with any damage."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.model.draft import Draft
from pymq.offline.bulk_walk import walk_bulk
from pymq.offline.log_walk import Block, walk
from pymq.store.disk.fs import RealFiles
from pymq.store.scan.columns import Records
from tests.golden_stores import unpack
from tests.offline.support import GOLDEN_NAMES, opened, records, small_store, write_at
from tests.store.support import BORN, make_store


def flat(steps: Iterable[object]) -> list[object]:
    """Yield records one by one and other items unchanged."""
    found: list[object] = []
    for step in steps:
        if isinstance(step, Block):
            found += step.records
        elif isinstance(step, Records):
            found += map(step.at, range(len(step)))
        else:
            found.append(step)
    return found


def assert_equal(root: Path) -> list[object]:
    with opened(root) as directory:
        plain = flat(walk(directory.log))
        assert flat(walk_bulk(directory.log)) == plain
    return plain


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_directories_of_a_real_broker(name: str, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    assert len(assert_equal(root)) == manifest["messageCount"] + 1
    with opened(root) as directory:
        assert any(isinstance(step, Records) for step in walk_bulk(directory.log))


@pytest.mark.parametrize("seed", range(8))
def test_damaged_directories(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root = small_store(tmp_path / "s", 200)
    for segment in sorted((root / "commitlog").iterdir()):
        for _ in range(rng.randrange(3)):
            write_at(segment, rng.randrange(4090), rng.randbytes(rng.choice((1, 2, 40))))
    if seed % 2:
        rng.choice(sorted((root / "commitlog").iterdir())).unlink()
    assert_equal(root)


def test_records_that_the_column_reader_leaves_out(tmp_path: Path) -> None:
    """IPv6 hosts, long topics, zero bytes in properties, and RocketMQ's CRC over the whole record, good and bad."""
    store = make_store(RealFiles(), ManualClock(), str(tmp_path / "s"), segment_size_bytes=1 << 16)
    store.open()
    odd: list[dict] = [
        {"born_host": b"\x01" * 16 + b"\0\0\x12\x34"},
        {"properties": b"a\x01nul\x7f\x02"},
        {"properties": b"__CRC32#\x01" + b"1" * 10 + b"\x02"},
        {},
    ]
    for number in range(200):
        what = {"born_host": BORN, "properties": b"", **(odd[number // 20 % 4] if number % 20 == 7 else {})}
        store.stage("%RETRY%" + "g" * 130 * (number == 90), 0, Draft(b"b%d" % number, born_timestamp_ms=1, **what))
    store.commit()
    store.close()
    log = tmp_path / "s" / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes().replace(b"nul\x7f\x02", b"nul\0\x02"))  # as another broker may write it
    assert len(assert_equal(tmp_path / "s")) == 198 + 2 + 1  # two bad CRCs, each one damaged range
    assert len(records(tmp_path / "s")) == 198
