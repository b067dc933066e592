"""Calculates key hashes in bulk with numpy. The numbers equal those of ``index_key_hash``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pymq.model.javahash import string_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TOPICS_MAX = 16_384  # whose hashes are kept: 3 MB; one takes 2 us
_KEY_SIZE_MAX_BYTES = 256  # longer keys, and keys that are not ASCII, are hashed one by one


@lru_cache(maxsize=_TOPICS_MAX)
def topic_hash(topic: str) -> int:
    """The hash of ``topic#`` as an unsigned number. Every key hash of the topic continues it."""
    return string_hash(topic + "#") & 0xFFFFFFFF


@lru_cache(maxsize=_KEY_SIZE_MAX_BYTES + 1)
def _powers(count: int) -> NDArray[np.uint32]:
    """31^(count-1) … 31^0, modulo 2^32."""
    import numpy as np  # noqa: PLC0415 - only stores with keys pay for it

    values = [pow(31, count - 1 - i, 1 << 32) for i in range(count)]
    return np.array(values, dtype=np.uint32)


def key_hashes_in(
    text: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64], prefixes: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """The hashes of the keys at ``starts`` of a text; ``prefixes`` are the :func:`topic_hash` of their topics.

    The hash is a polynomial in 31, so hash(topic#key) = hash(topic#) * 31^len(key) + hash(key). Keys of equal size are
    hashed together.
    """
    import numpy as np  # noqa: PLC0415 - only stores with keys pay for it

    distinct = np.unique(sizes).tolist()
    if len(distinct) == 1:
        return _hashes_of_size(text, starts, distinct[0], prefixes)
    result = np.empty(len(starts), dtype=np.int64)
    for size in distinct:
        places = np.nonzero(sizes == size)[0]
        result[places] = _hashes_of_size(text, starts[places], size, prefixes[places])
    return result


def _hashes_of_size(
    text: bytes, starts: NDArray[np.int64], size: int, prefixes: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """The hashes of keys that all have ``size`` bytes."""
    import numpy as np  # noqa: PLC0415

    if size == 0:
        return _finished(prefixes)
    # A view with every place of the text as the start of a key; indexing copies the wanted rows.
    rows = np.ndarray((len(text) - size + 1,), np.dtype((np.void, size)), text, 0, (1,))[starts]
    hashes = hashes_of_letters(rows.view(np.uint8).reshape(len(starts), size), prefixes)
    return _plain_hashes(text, starts, size, prefixes) if hashes is None else hashes


def hashes_of_letters(letters: NDArray[np.uint8], prefixes: NDArray[np.uint32] | int) -> NDArray[np.int64] | None:
    """The hashes of keys of one size, a row each; None unless they are short ASCII keys.

    ``prefixes``: the :func:`topic_hash` of each key's topic, or one for all.
    """
    import numpy as np  # noqa: PLC0415

    size = letters.shape[1]
    if size > _KEY_SIZE_MAX_BYTES or (letters & 0x80).any():
        return None
    hashes: NDArray[np.uint32] = np.einsum("ij,j->i", letters.astype(np.uint32), _powers(size))
    if isinstance(prefixes, int):
        return _finished(hashes + np.uint32(prefixes * pow(31, size, 1 << 32) & 0xFFFFFFFF))
    return _finished(hashes + prefixes * np.uint32(pow(31, size, 1 << 32)))


def _plain_hashes(text: bytes, starts: NDArray[np.int64], size: int, prefixes: NDArray[np.uint32]) -> NDArray[np.int64]:
    import numpy as np  # noqa: PLC0415

    hashes = []
    for start, prefix in zip(starts.tolist(), prefixes.tolist(), strict=True):
        key = text[start : start + size].decode("utf-8", "replace")
        unit_count = len(key.encode("utf-16-le", "surrogatepass")) // 2
        hashes.append((prefix * pow(31, unit_count, 1 << 32) + string_hash(key)) & 0xFFFFFFFF)
    return _finished(np.array(hashes, dtype=np.uint32))


def _finished(hashes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The hashes as in index entries: absolute values of signed numbers, 0 for the number that has none."""
    import numpy as np  # noqa: PLC0415

    values: NDArray[np.int64] = np.abs(hashes.view(np.int32).astype(np.int64))
    values[values == 0x80000000] = 0
    return values
