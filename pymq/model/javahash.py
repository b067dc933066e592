"""Java's ``String.hashCode``, on which RocketMQ's tags, index keys and file names depend."""

from __future__ import annotations

from functools import lru_cache


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


@lru_cache(maxsize=4096)
def tags_code(tags: str) -> int:
    """Return the tagsCode of a TAGS property in a consume queue: 0 when empty, else the sign-extended string hash."""
    return string_hash(tags) if tags else 0


def index_key_hash(topic: str, key: str) -> int:
    """Return an index entry's hash (Java: IndexFile.indexKeyHashMethod): |hash| of ``topic#key``, 0 for the lowest
    int."""
    value = abs(string_hash(f"{topic}#{key}"))
    return 0 if value == 0x8000_0000 else value
