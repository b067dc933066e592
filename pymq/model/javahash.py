"""Java's ``String.hashCode``, on which RocketMQ's tags, index keys and file names depend."""

from __future__ import annotations

import sys

from pymq.model.sized_cache import SizedCache

TAGS_CACHE_BYTES = 1024 * 1024


def string_hash(text: str) -> int:
    """Return the signed 32-bit hash: 31*h + each UTF-16 code unit, wrapping."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(units), 2):
            value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


# tags_code(tags) returns the tagsCode of a TAGS property in a consume queue, the sign-extended string hash. It is 0 for
# an empty text.
tags_code = SizedCache[str, int](string_hash, lambda tags, _: sys.getsizeof(tags), TAGS_CACHE_BYTES).__getitem__


def index_key_hash(topic: str, key: str) -> int:
    """Return an index entry's hash (Java: IndexFile.indexKeyHashMethod): |hash| of ``topic#key``, 0 for the lowest
    int."""
    value = abs(string_hash(f"{topic}#{key}"))
    return 0 if value == 0x8000_0000 else value
