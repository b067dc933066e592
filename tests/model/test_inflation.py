"""InflationBudget: bodies of one output inflate up to a free amount and a multiple of their messages' size."""

from __future__ import annotations

import pytest

from pymq.model import sysflag
from pymq.model.compression import InflatedSizeError, InflateError, compress_body, inflated_size_max
from pymq.model.inflation import InflationBudget

BODY = bytes(100_000)
COMPRESSED, FLAGS = compress_body(BODY)
MESSAGE_SIZE_BYTES = len(COMPRESSED) + 100


def test_bodies_inflate_until_free_amount_and_ratio_are_used_up() -> None:
    budget = InflationBudget(ratio_max=10, free_bytes=3 * len(BODY))
    ends_at = 0
    with pytest.raises(InflateError, match="all bodies together may inflate to 10 times"):
        for ends_at in range(100):  # noqa: B007 - the count at the error is asserted
            assert budget.decompress(COMPRESSED, FLAGS, MESSAGE_SIZE_BYTES) == BODY

    assert ends_at == 3  # 3 free ones; what 4 messages add is less than one body
    assert budget.refused_count == 1


def test_the_edge_is_exact() -> None:
    free_bytes = len(BODY) - MESSAGE_SIZE_BYTES
    assert InflationBudget(1, free_bytes).decompress(COMPRESSED, FLAGS, MESSAGE_SIZE_BYTES) == BODY
    with pytest.raises(InflateError):
        InflationBudget(1, free_bytes - 1).decompress(COMPRESSED, FLAGS, MESSAGE_SIZE_BYTES)


def test_plain_messages_make_room_for_compressed_ones() -> None:
    budget = InflationBudget(ratio_max=1, free_bytes=0)
    assert budget.decompress(b"plain", 0, len(BODY)) == b"plain"
    assert budget.decompress(COMPRESSED, FLAGS, MESSAGE_SIZE_BYTES) == BODY


def test_a_damaged_body_does_not_count_as_refused() -> None:
    budget = InflationBudget()
    with pytest.raises(InflateError):
        budget.decompress(COMPRESSED[:-1], FLAGS, MESSAGE_SIZE_BYTES)
    assert budget.refused_count == 0


def test_a_body_beyond_its_own_limit_does_not_count_as_refused() -> None:
    bomb, flags = compress_body(bytes(3_000_000))
    assert inflated_size_max(len(bomb)) < 3_000_000
    budget = InflationBudget()
    with pytest.raises(InflatedSizeError):
        budget.decompress(bomb, flags, len(bomb))
    assert budget.refused_count == 0


def test_two_megabytes_of_bombs_stay_below_a_bound() -> None:
    """Before there was a budget, 2 MB of such bodies became gigabytes of output."""
    bomb, flags = compress_body(bytes(1_000_000))
    assert flags & sysflag.COMPRESSED
    budget = InflationBudget(free_bytes=4_000_000)
    inflated = stored = 0
    while stored < 200_000:
        stored += len(bomb) + 100
        try:
            inflated += len(budget.decompress(bomb, flags, len(bomb) + 100))
        except InflateError:
            continue
    assert 4_000_000 < inflated <= 4_000_000 + 100 * stored
    assert budget.refused_count > 0
