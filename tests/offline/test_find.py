"""Finding one message by its offset or by either kind of id."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.errors import CorruptRecordError, NotFoundError
from pymq.offline.find import by_id, by_offset
from tests.golden_stores import unpack
from tests.offline.support import flip, log_place, opened


def test_every_message_is_found_by_offset_and_by_both_ids(tmp_path: Path) -> None:
    root, manifest = unpack("store-clean", tmp_path)
    with opened(root) as directory:
        for expected in manifest["messages"][::40]:
            place = (expected["topic"], expected["queueId"], expected["queueOffset"])
            for found in (
                by_offset(directory.log, expected["commitLogOffset"]),
                by_id(directory.log, expected["offsetMsgId"]),
                by_id(directory.log, expected["offsetMsgId"].lower()),
            ):
                assert (found.topic, found.queue_id, found.queue_offset) == place
            assert by_id(directory.log, expected["msgId"]).message_id == expected["msgId"]


def test_a_missing_message_is_reported(tmp_path: Path) -> None:
    root, manifest = unpack("store-clean", tmp_path)
    expected = manifest["messages"][7]
    path, position = log_place(root, expected["commitLogOffset"])
    flip(path, position + 90)
    with opened(root) as directory:
        with pytest.raises(NotFoundError, match="no message with id"):
            by_id(directory.log, "7F000001000059810000000000000001")
        with pytest.raises(NotFoundError, match="the log holds 0 to 262144"):
            by_offset(directory.log, 262144)
        with pytest.raises(CorruptRecordError, match="magic"):
            by_offset(directory.log, 1)
        with pytest.raises(CorruptRecordError, match=rf"at {position + 88}: the body's CRC"):
            by_offset(directory.log, expected["commitLogOffset"])
