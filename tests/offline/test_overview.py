"""The overview of a directory needs few reads and equals the result of a full check."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.offline.overview import overview
from tests.golden_stores import unpack
from tests.offline.support import GOLDEN_NAMES, check, flip, log_place, opened, records, small_store


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_real_brokers_directory(name: str, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    with opened(root) as directory:
        found = overview(directory)
    assert found["last_written_by"] == "RocketMQ"
    assert found["clean_stop"] == (name == "store-clean")
    assert found["torn_tail"] == (name == "store-torn")
    assert found["log_end"] == manifest["afterRecovery"]["commitLogMaxOffset"]
    assert [Path(row["file"]).name for row in found["segments"]] == manifest["onDisk"]["segments"]
    assert found["segments"][-1]["state"] == ("open" if name == "store-clean" else "empty")
    expected = manifest["onDisk"]["checkpoint"]
    assert found["checkpoint"]["log_store_ms"] == expected["physicMsgTimestamp"]
    assert found["checkpoint"]["queues_store_ms"] == expected["logicsMsgTimestamp"]
    assert found["index_files"][0]["slots"] == 500
    assert found["tables"]["topics.json"] > 10
    if name == "store-clean":
        limits = {(row["topic"], row["queue"]): (row["min_offset"], row["max_offset"]) for row in found["queues"]}
        for topic, queues in manifest["topics"].items():
            for queue in queues:
                place = (topic, queue["queueId"])
                assert limits.get(place, (0, 0)) == (queue["minOffset"], queue["maxOffset"])


def test_segments_show_what_they_hold(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    found = records(root)
    with opened(root) as directory:
        rows = overview(directory)["segments"]
    for row in rows:
        inside = [record for record in found if row["start"] <= record.offset < row["start"] + 4096]
        assert row["used_bytes"] == inside[-1].offset + inside[-1].size - row["start"]
        assert (row["first_store_ms"], row["last_store_ms"]) == (inside[0].store_ms, inside[-1].store_ms)
    assert [row["state"] for row in rows] == ["sealed"] * (len(rows) - 1) + ["open"]


def test_pymqs_checkpoint_and_one_topic(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    with opened(root) as directory:
        found = overview(directory, "payments")
    assert found["last_written_by"] == "PyMQ"
    assert found["checkpoint"]["pymq"]["log_offset"] == found["log_end"] == check(root).log_end
    assert {row["topic"] for row in found["queues"]} == {"payments"}
    assert sum(row["messages"] for row in found["queues"]) == 34


def test_damage_in_the_middle_does_not_hide_the_end(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    found = records(root)
    for victim in (found[50], found[-1], found[-2]):
        path, position = log_place(root, victim.offset)
        flip(path, position + 90)
    with opened(root) as directory:
        assert overview(directory)["log_end"] == found[-2].offset


def test_an_empty_directory(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 0)
    with opened(root) as directory:
        found = overview(directory)
    assert (found["log_start"], found["log_end"], found["segments"], found["queues"]) == (0, 0, [], [])
