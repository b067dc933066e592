"""KvConfig: values by namespace and key, under caps."""

from __future__ import annotations

import pytest

from pymq.errors import Refusal
from pymq.namesrv.kv import VALUE_LENGTH_MAX, KvConfig


def test_values_come_and_go() -> None:
    kv = KvConfig()
    kv.put("ns", "k", "v", count_max=10)
    kv.put("ns", "k", "w", count_max=10)
    assert (kv.get("ns", "k"), kv.namespace("ns"), len(kv)) == ("w", {"k": "w"}, 1)
    kv.delete("ns", "k")
    kv.delete("ns", "k")
    assert (kv.get("ns", "k"), kv.namespace("ns"), len(kv)) == (None, None, 0)


@pytest.mark.parametrize(
    ("namespace", "key", "value"),
    [
        ("", "k", "v"),
        ("ns", "", "v"),
        ("n" * 256, "k", "v"),
        ("ns", "a\nb", "v"),
        ("ns", "k", "v" * (VALUE_LENGTH_MAX + 1)),
    ],
)
def test_unusable_values_are_refused(namespace: str, key: str, value: str) -> None:
    kv = KvConfig()
    with pytest.raises(Refusal) as caught:
        kv.put(namespace, key, value, count_max=10)
    assert caught.value.code == 29
    assert len(kv) == 0


def test_a_full_table_takes_changes_but_nothing_new() -> None:
    kv = KvConfig()
    kv.put("ns", "a", "1", count_max=1)
    kv.put("ns", "a", "2", count_max=1)
    with pytest.raises(Refusal, match="maxKvEntries") as caught:
        kv.put("ns", "b", "1", count_max=1)
    assert caught.value.code == 16
    assert kv.namespace("ns") == {"a": "2"}
