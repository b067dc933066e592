"""Properties that another broker left no room in are shortened, so that the message itself is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pymq.broker.messages.fitting import fitted, slimmed
from pymq.model.layout import PROPERTIES_SIZE_MAX_BYTES
from pymq.model.properties import RESERVED, decode_properties, encode_properties

NAMES = st.sampled_from([*sorted(RESERVED), "a", "b", "long name"])


def test_what_fits_stays_as_it_is() -> None:
    raw = b"a\x01" + b"x" * (PROPERTIES_SIZE_MAX_BYTES - 3) + b"\x02"
    assert fitted(raw) is raw
    assert fitted(b"a\x01\x02\x02") == b"a\x01\x02\x02"


def test_brokers_own_additions_go_first_then_the_largest_of_the_application() -> None:
    own = {"TRACE_ON": "true", "MSG_REGION": "DefaultRegion", "REAL_TOPIC": "T", "TAGS": "t", "UNIQ_KEY": "u"}
    kept = decode_properties(fitted(encode_properties({**own, "a": "x" * 32_700})))
    assert set(kept) == {"REAL_TOPIC", "TAGS", "UNIQ_KEY", "a"}
    kept = decode_properties(fitted(encode_properties({**own, "a": "x" * 20_000, "b": "y" * 14_000, "KEYS": "k"})))
    assert set(kept) == {"REAL_TOPIC", "TAGS", "UNIQ_KEY", "b", "KEYS"}
    kept = decode_properties(fitted(encode_properties({**own, "TAGS": "x" * 40_000})))
    assert set(kept) == {"REAL_TOPIC", "UNIQ_KEY"}


def test_a_nul_becomes_a_space() -> None:
    assert fitted(b"a\x01x\0y\x02") == b"a\x01x y\x02"


@given(st.dictionaries(NAMES, st.integers(0, 40_000), max_size=6))
def test_the_result_always_fits(sizes: dict[str, int]) -> None:
    raw = encode_properties({name: "v" * size for name, size in sizes.items()})
    result = fitted(raw)
    assert len(result) <= PROPERTIES_SIZE_MAX_BYTES
    assert slimmed(result) == result or result == raw
    assert decode_properties(result).items() <= decode_properties(raw).items()
