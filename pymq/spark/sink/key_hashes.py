"""Queues by key for many rows at once: the hash of the client's ``queue_of_key``, computed by numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pymq.model.javahash import string_hash

# Longer keys, and keys that are not ASCII, are hashed one by one.
COLUMNS_MAX = 64

Hashes = npt.NDArray[np.int64]


def key_hashes(keys: pa.StringArray) -> Hashes:
    """Return the absolute value of each key's hash, 0 for null. A queue's number is that modulo the queues."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    octets = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    is_odd = lengths > COLUMNS_MAX
    inside = octets[offsets[0] : offsets[-1]]
    if (inside > 127).any():
        above = np.concatenate(([0], np.cumsum(inside > 127)))
        places = offsets - offsets[0]
        is_odd |= above[places[1:]] > above[places[:-1]]
    values = np.zeros(len(keys), np.uint32)
    for at in range(int(lengths[~is_odd].max(initial=0))):
        there = np.flatnonzero((lengths > at) & ~is_odd)
        values[there] = values[there] * np.uint32(31) + octets[offsets[there] + at]
    hashes = np.abs(values.view(np.int32).astype(np.int64))
    for row in np.flatnonzero(is_odd).tolist():
        text = keys[row].as_py()
        hashes[row] = 0 if text is None else abs(string_hash(text))
    return hashes
