"""Parses the property strings of many messages at once: numpy finds the separators, Arrow copies the texts.

Each row has the result of ``pymq.model.properties.decode_properties``: pairs without a separator, with an empty name
or an empty value are dropped, the last of several equal names wins, and a missing last separator is accepted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pymq.model.properties import decode_properties
from pymq.spark.layout import slices

Indices = npt.NDArray[np.int64]
_MAP = pa.map_(pa.string(), pa.string())


class PropertyPairs:
    """Names and values of all rows in order; ``row_of`` has the row of each pair."""

    __slots__ = ("_codes", "_dictionary", "_names", "_row_count", "_row_of", "_values")

    def __init__(self, row_count: int, row_of: Indices, names: pa.StringArray, values: pa.StringArray) -> None:
        encoded = names.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        kept = _last_of_equal(row_count, row_of, codes, len(encoded.dictionary))
        if kept is not None:
            names, values = names.take(pa.array(kept)), values.take(pa.array(kept))
            row_of, codes = row_of[kept], codes[kept]
        self._row_count = row_count
        self._row_of = row_of
        self._names = names
        self._values = values
        self._codes = codes
        self._dictionary = encoded.dictionary

    def maps(self) -> pa.MapArray:
        """Returns one map per row; rows without properties have an empty one."""
        return pa.MapArray.from_arrays(self._bounds(), self._names, self._values)

    def headers(self) -> pa.ListArray:
        """Returns one list of structs (key, value as bytes) per row, as Kafka's source has."""
        pairs = pa.StructArray.from_arrays([self._names, self._values.cast(pa.binary())], ["key", "value"])
        return pa.ListArray.from_arrays(self._bounds(), pairs)

    def _bounds(self) -> pa.Array:
        """Returns where each row's pairs begin, and where the last one's end."""
        offsets = np.zeros(self._row_count + 1, np.int32)
        np.cumsum(np.bincount(self._row_of, minlength=self._row_count), out=offsets[1:])
        return pa.array(offsets)

    def values_of(self, name: str) -> pa.StringArray:
        """Returns one property's value in every row, null if it is missing."""
        code = pc.index(self._dictionary, name).as_py()
        where = np.flatnonzero(self._codes == code) if code >= 0 else np.empty(0, np.int64)
        chosen = np.full(self._row_count, -1, np.int64)
        chosen[self._row_of[where]] = where
        return self._values.take(pa.array(chosen, mask=chosen < 0))


def parse_properties(raw: pa.BinaryArray) -> PropertyPairs:
    """Returns the table of all rows' properties."""
    try:
        return _parse_at_once(raw)
    except pa.ArrowInvalid:  # some bytes are not UTF-8
        return _parse_one_by_one(raw)


def _parse_at_once(raw: pa.BinaryArray) -> PropertyPairs:
    count = len(raw)
    offsets = np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + count + 1].astype(np.int64)
    data = raw.buffers()[2]
    if data is None or offsets[-1] == offsets[0]:
        empty = pa.array([], pa.string())
        return PropertyPairs(count, np.empty(0, np.int64), empty, empty)
    octets = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    buffer = data.slice(int(offsets[0]), len(octets))
    offsets -= offsets[0]
    starts, ends = _pair_bounds(octets, offsets)
    separators = np.flatnonzero(octets == 1)
    middle = separators
    good = _are_pairs(starts, middle, ends)
    if not good.all():
        # A pair has no separator or several: the first one after each start counts, if it is in the pair.
        separators = np.append(separators, len(octets))
        middle = separators[np.searchsorted(separators, starts)]
        good = _are_pairs(starts, middle, ends)
        starts, middle, ends = starts[good], middle[good], ends[good]
    row_of = _rows_of(starts, offsets)
    names = slices(buffer, starts, middle).cast(pa.string())
    values = slices(buffer, middle + 1, ends).cast(pa.string())
    return PropertyPairs(count, row_of, names, values)


def _are_pairs(starts: Indices, middle: Indices, ends: Indices) -> npt.NDArray[np.bool_]:
    """Returns which triples enclose a name and a value; one False if the numbers of separators and pairs differ."""
    if len(middle) != len(starts):
        return np.zeros(1, np.bool_)
    return (middle > starts) & (middle + 1 < ends)


def _rows_of(starts: Indices, offsets: Indices) -> Indices:
    """Returns the row of each pair, from the starts of the pairs and the rows' offsets."""
    count = len(offsets) - 1
    per_row = len(starts) // count
    if per_row and per_row * count == len(starts) and np.array_equal(starts[::per_row], offsets[:-1]):
        # Every row has the same number of pairs, as with messages of one kind, so no search is needed.
        return np.repeat(np.arange(count), per_row)
    return np.searchsorted(offsets, starts, side="right") - 1


def _pair_bounds(octets: npt.NDArray[np.uint8], offsets: Indices) -> tuple[Indices, Indices]:
    """Returns the starts and ends of pairs. A pair ends at 0x02, or at the row's end if clients left that out.

    Clients 4.9.4 to 5.0.0 do so.
    """
    ends = np.flatnonzero(octets == 2)
    nexts = ends + 1
    row_ends = offsets[1:][np.diff(offsets) > 0]
    open_ends = row_ends[octets[row_ends - 1] != 2]
    if len(open_ends):
        # At the same position the open end comes first: it belongs to the earlier row.
        order = np.argsort(np.concatenate((ends * 2 + 1, open_ends * 2)), kind="stable")
        ends = np.concatenate((ends, open_ends))[order]
        nexts = np.concatenate((nexts, open_ends))[order]
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = nexts[:-1]
    return starts, ends


def _last_of_equal(row_count: int, row_of: Indices, codes: Indices, code_count: int) -> Indices | None:
    """Returns the indices of the pairs to keep if a row has a name more than once; None if no row does."""
    total = len(codes)
    per_row = total // row_count if row_count else 0
    if per_row and per_row * row_count == total and _same_in_every_row(row_of, codes, row_count, per_row):
        # The usual case: all messages have the same names in the same order, so one row represents all.
        kept = _last_positions(codes[:per_row])
        if len(kept) == per_row:
            return None
        return (np.arange(row_count)[:, None] * per_row + kept).reshape(-1)
    kept = _last_positions(row_of * code_count + codes)
    return None if len(kept) == total else kept


def _same_in_every_row(row_of: Indices, codes: Indices, row_count: int, per_row: int) -> bool:
    if row_of[0] != 0 or row_of[-1] != row_count - 1:
        return False
    if not (row_of.reshape(row_count, per_row) == np.arange(row_count)[:, None]).all():
        return False
    return bool((codes.reshape(row_count, per_row) == codes[:per_row]).all())


def _last_positions(codes: Indices) -> Indices:
    """Returns the ascending positions of the last occurrence of every code."""
    _, first_from_end = np.unique(codes[::-1], return_index=True)
    return np.sort(len(codes) - 1 - first_from_end)


def _parse_one_by_one(raw: pa.BinaryArray) -> PropertyPairs:
    row_of: list[int] = []
    names: list[str] = []
    values: list[str] = []
    for row, properties in enumerate(raw.to_pylist()):
        for name, value in decode_properties(properties).items():
            row_of.append(row)
            names.append(name)
            values.append(value)
    texts = pa.array(names, pa.string()), pa.array(values, pa.string())
    return PropertyPairs(len(raw), np.array(row_of, np.int64), *texts)
