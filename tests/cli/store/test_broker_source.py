"""BrokerSource: the answers a broker may give for its log. tests/cli/store/test_recover.py uses a real broker."""

from __future__ import annotations

import pytest

from pymq.cli.store.broker_source import BrokerSource
from pymq.client.admin.replication import ReplicationAdmin
from pymq.errors import StoreError
from pymq.wire.bodies_replication import ReplicationStatus
from pymq.wire.ha import OFFSET_MAX


@pytest.mark.parametrize("size", [0, 101])
def test_unrequested_bytes_are_refused(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    async def read_log(admin: ReplicationAdmin, address: str, start: int, size_bytes: int) -> bytes:
        return bytes(size)

    monkeypatch.setattr(ReplicationAdmin, "read_log", read_log)
    with (
        BrokerSource("127.0.0.1:1") as source,
        pytest.raises(StoreError, match=f"sent {size} bytes of its log at offset 700, expected were 1 to 100"),
    ):
        source.read(700, 800)


def test_an_answer_may_be_shorter_than_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_log(admin: ReplicationAdmin, address: str, start: int, size_bytes: int) -> bytes:
        return bytes([start % 251]) * min(size_bytes, 7)

    monkeypatch.setattr(ReplicationAdmin, "read_log", read_log)
    with BrokerSource("127.0.0.1:1") as source:
        assert source.read(0, 20) == b"\0" * 7 + b"\x07" * 7 + b"\x0e" * 6


@pytest.mark.parametrize(
    ("size", "start", "end", "is_one"),
    [
        (1000, 0, 0, True),
        (1000, 3000, OFFSET_MAX, True),
        (0, 0, 10, False),
        (-1000, 0, 10, False),
        (1000, -1000, 10, False),
        (1000, 3001, 4000, False),
        (1000, 3000, 2999, False),
        (1000, 0, OFFSET_MAX + 1, False),
    ],
)
def test_impossible_log_bounds_are_refused(
    monkeypatch: pytest.MonkeyPatch, size: int, start: int, end: int, is_one: bool
) -> None:
    async def status(admin: ReplicationAdmin, address: str) -> ReplicationStatus:
        return ReplicationStatus(
            cluster="c", broker_name="b", broker_id=0, role="ASYNC_MASTER", address=address, segment_size_bytes=size,
            log_start=start, log_end=end,
        )  # fmt: skip

    monkeypatch.setattr(ReplicationAdmin, "status", status)
    with BrokerSource("127.0.0.1:1") as source:
        if is_one:
            assert source.facts()[3:] == (size, start, end, True)
        else:
            with pytest.raises(StoreError, match="which is impossible"):
                source.facts()
