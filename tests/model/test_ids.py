"""Message ids: the broker's names a log offset, the client's is unique."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.model.hosts import pack_host
from pymq.model.ids import UniqueIdMaker, decode_offset_id, encode_offset_id

IP = bytes([10, 0, 0, 7])


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1000


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6), st.integers(0, 65535), st.integers(0, 2**63 - 1))
def test_offset_ids_name_host_port_and_place(host: Any, port: int, offset: int) -> None:
    text = encode_offset_id(pack_host(str(host), port), offset)
    assert len(text) == (32 if host.version == 4 else 56)
    assert text == text.upper()
    assert decode_offset_id(text) == decode_offset_id(text.lower()) == (str(host), port, offset)


def test_an_offset_id_as_a_java_broker_writes_it() -> None:
    assert encode_offset_id(pack_host("127.0.0.1", 10911), 361253) == "7F00000100002A9F0000000000058325"


@pytest.mark.parametrize("text", ["", "7F", "7F00000100002A9F000000000005832", "x" * 32, "0" * 30, "0" * 34, "0" * 58])
def test_other_texts_are_not_offset_ids(text: str) -> None:
    with pytest.raises(ValueError):
        decode_offset_id(text)


def test_the_parts_of_a_unique_id() -> None:
    clock = ManualClock(ms(2026, 3, 1) + 0x1234)
    maker = UniqueIdMaker(clock, IP, pid=0x1_ABCD, salt=0x1_0102_0304)
    assert maker.next_id() == "0A000007ABCD01020304000012340001"
    assert maker.next_id()[-4:] == "0002"


@pytest.mark.parametrize("ip", [b"", b"\1", bytes(16)])
def test_the_length_does_not_depend_on_the_address(ip: bytes) -> None:
    assert len(UniqueIdMaker(ManualClock(), ip, 1, 1).next_id()) == 32


def test_65536_ids_of_one_millisecond_are_unique() -> None:
    clock = ManualClock()
    maker = UniqueIdMaker(clock, IP, 1, 1)
    ids = {maker.next_id() for _ in range(65536)}
    assert len(ids) == 65536
    clock.advance(1)
    assert maker.next_id() not in ids


@pytest.mark.parametrize("turn", [(2026, 2, 1), (2026, 3, 1), (2027, 1, 1), (2028, 3, 1)])
def test_ids_stay_unique_across_months(turn: tuple[int, int, int]) -> None:
    clock = ManualClock(ms(*turn) - 5)
    maker = UniqueIdMaker(clock, IP, 1, 1)
    made = []
    for _ in range(10):
        made += [maker.next_id() for _ in range(3)]
        clock.advance(1)
    assert len(set(made)) == 30
    assert [int(made[i * 3][20:28], 16) for i in range(5, 10)] == [0, 1, 2, 3, 4]


def test_ids_stay_unique_when_the_clock_goes_back_across_months() -> None:
    clock = ManualClock(ms(2026, 5, 1) - 1)
    maker = UniqueIdMaker(clock, IP, 1, 1)
    made = []
    for _ in range(4):
        made.append(maker.next_id())
        clock.set_wall(ms(2026, 5, 1))
        made.append(maker.next_id())
        clock.set_wall(ms(2026, 5, 1) - 1)
    assert len(set(made)) == 8


def test_the_last_millisecond_of_a_long_month_fits() -> None:
    clock = ManualClock(ms(2026, 2, 1) - 1)
    assert int(UniqueIdMaker(clock, IP, 1, 1).next_id()[20:28], 16) == 31 * 86_400_000 - 1


def test_processes_and_loaders_of_one_host_differ() -> None:
    clock = ManualClock()
    pairs = [(1, 1), (2, 1), (1, 2)]
    assert len({UniqueIdMaker(clock, IP, pid, salt).next_id() for pid, salt in pairs}) == 3
