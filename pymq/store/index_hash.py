"""Key hashes in bulk: the same numbers as ``index_key_hash``, thousands at a time with numpy."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pymq.model.javahash import index_key_hash, string_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KEY_SIZE_MAX_BYTES = 256  # longer keys, and those with other than ASCII characters, take the plain way


@lru_cache(maxsize=1024)
def _prefix_hash(topic: str) -> int:
    return string_hash(topic + "#") & 0xFFFFFFFF


@lru_cache(maxsize=_KEY_SIZE_MAX_BYTES + 1)
def _powers(count: int) -> NDArray[np.uint32]:
    """31^(count-1) … 31^0, modulo 2^32."""
    import numpy as np  # noqa: PLC0415 - only stores with keys pay for it

    values = [pow(31, count - 1 - i, 1 << 32) for i in range(count)]
    return np.array(values, dtype=np.uint32)


def key_hashes(topics: list[str], keys: list[bytes]) -> NDArray[np.int64]:
    """``index_key_hash(topics[i], keys[i])`` for every i. Keys of equal length are hashed together.

    The hash is a polynomial in 31, so hash(topic#key) = hash(topic#) * 31^len(key) + hash(key).
    """
    import numpy as np  # noqa: PLC0415

    by_topic = {topic: _prefix_hash(topic) for topic in set(topics)}
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    prefixes = np.fromiter(map(by_topic.__getitem__, topics), dtype=np.uint32, count=len(keys))
    distinct = np.unique(lengths).tolist()
    if len(distinct) == 1:
        return _hashes_of_length(distinct[0], topics, keys, prefixes)
    result = np.empty(len(keys), dtype=np.int64)
    for length in distinct:
        places = np.nonzero(lengths == length)[0]
        some = places.tolist()
        result[places] = _hashes_of_length(length, [topics[i] for i in some], [keys[i] for i in some], prefixes[places])
    return result


def _hashes_of_length(
    length: int, topics: list[str], keys: list[bytes], prefixes: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """The hashes of keys that all have ``length`` bytes; ``prefixes`` are the hashes of their topics."""
    import numpy as np  # noqa: PLC0415

    joined = b"".join(keys)
    if length > _KEY_SIZE_MAX_BYTES or not joined.isascii():
        plain = [index_key_hash(topic, key.decode("utf-8", "replace")) for topic, key in zip(topics, keys, strict=True)]
        return np.array(plain, dtype=np.int64)
    text = np.frombuffer(joined, dtype=np.uint8).reshape(len(keys), length)
    hashes = (text * _powers(length)).sum(axis=1, dtype=np.uint32)
    hashes += prefixes * np.uint32(pow(31, length, 1 << 32))
    values: NDArray[np.int64] = np.abs(hashes.view(np.int32).astype(np.int64))
    values[values == 0x80000000] = 0
    return values
