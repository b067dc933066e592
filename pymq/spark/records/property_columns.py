"""Parses the property strings of many messages at once: numpy finds the separators, Arrow copies the texts.

Each row has the result of ``pymq.model.properties.decode_properties``: pairs without a separator, with an empty name
or an empty value are dropped, the last of several equal names wins, and a missing last separator is accepted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pymq.model.properties import decode_properties
from pymq.spark.records.layout import slices

Indices = npt.NDArray[np.int64]
# What ends a name, and what ends its value.
NAME_END, PAIR_END = 1, 2
_FIRST_PRINTABLE, _QUOTE, _BACKSLASH = b' "\\'


class PropertyPairs(ABC):
    """Names and values of all rows in order, after :meth:`_bounds`, which says where each row's pairs begin."""

    __slots__ = ("_names", "_row_count", "_values")

    def __init__(self, row_count: int, names: pa.StringArray, values: pa.StringArray) -> None:
        self._row_count = row_count
        self._names = names
        self._values = values

    def maps(self) -> pa.MapArray:
        """Return one map per row; rows without properties have an empty one."""
        return pa.MapArray.from_arrays(pa.array(self._bounds()), self._names, self._values)

    def headers(self) -> pa.ListArray:
        """Return one list of structs (key, value as bytes) per row, as Kafka's source has."""
        pairs = pa.StructArray.from_arrays([self._names, self._values.cast(pa.binary())], ["key", "value"])
        return pa.ListArray.from_arrays(pa.array(self._bounds()), pairs)

    def json_texts(self) -> pa.StringArray:
        """Return one JSON object per row, as text."""
        pairs = pc.binary_join_element_wise('"', _escaped(self._names), '":"', _escaped(self._values), '"', "")
        rows = pa.ListArray.from_arrays(pa.array(self._bounds()), pairs)
        return pc.binary_join_element_wise("{", pc.binary_join(rows, ","), "}", "")

    @abstractmethod
    def values_of(self, name: str) -> pa.StringArray:
        """Return one property's value in every row, null if it is missing."""

    @abstractmethod
    def _bounds(self) -> npt.NDArray[np.int32]:
        """Return where each row's pairs begin, and where the last one's end."""


class MixedPairs(PropertyPairs):
    """Rows with different names; ``row_of`` has the row of each pair."""

    __slots__ = ("_codes", "_dictionary", "_row_of")

    def __init__(self, row_count: int, row_of: Indices, names: pa.StringArray, values: pa.StringArray) -> None:
        encoded = names.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        kept = _last_of_equal(row_of, codes, len(encoded.dictionary))
        if kept is not None:
            names, values = names.take(pa.array(kept)), values.take(pa.array(kept))
            row_of, codes = row_of[kept], codes[kept]
        super().__init__(row_count, names, values)
        self._row_of = row_of
        self._codes = codes
        self._dictionary = encoded.dictionary

    def values_of(self, name: str) -> pa.StringArray:
        """See :class:`PropertyPairs`."""
        code = pc.index(self._dictionary, name).as_py()
        where = np.flatnonzero(self._codes == code) if code >= 0 else np.empty(0, np.int64)
        chosen = np.full(self._row_count, -1, np.int64)
        chosen[self._row_of[where]] = where
        return self._values.take(pa.array(chosen, mask=chosen < 0))

    def _bounds(self) -> npt.NDArray[np.int32]:
        offsets = np.zeros(self._row_count + 1, np.int32)
        np.cumsum(np.bincount(self._row_of, minlength=self._row_count), out=offsets[1:])
        return offsets


class UniformPairs(PropertyPairs):
    """Rows with the same names in the same order, as messages of one kind have."""

    __slots__ = ("_template",)

    def __init__(self, row_count: int, template: Sequence[str], names: pa.StringArray, values: pa.StringArray) -> None:
        super().__init__(row_count, names, values)
        self._template = list(template)

    def values_of(self, name: str) -> pa.StringArray:
        """See :class:`PropertyPairs`."""
        if name not in self._template:
            return pa.nulls(self._row_count, pa.string())
        width = len(self._template)
        return self._values.take(pa.array(np.arange(self._template.index(name), len(self._values), width)))

    def _bounds(self) -> npt.NDArray[np.int32]:
        return np.arange(0, len(self._values) + 1, len(self._template), dtype=np.int32)


def parse_properties(raw: pa.BinaryArray) -> PropertyPairs:
    """Return the table of all rows' properties."""
    try:
        return parse_uniform(raw) or parse_mixed(raw)
    except pa.ArrowInvalid:  # some bytes are not UTF-8
        return parse_one_by_one(raw)


def parse_uniform(raw: pa.BinaryArray) -> UniformPairs | None:
    """Return the properties of rows that all have the first row's names, without empty values; None for others.

    Raises pa.ArrowInvalid for bytes that are not UTF-8.
    """
    buffer, octets, offsets = _bytes_of(raw)
    count = len(raw)
    separators = np.flatnonzero(octets <= PAIR_END)
    width = len(separators) // (2 * count) if count else 0
    if not width or 2 * width * count != len(separators):
        return None
    grid = separators.reshape(count, 2 * width)
    if not np.array_equal(grid[:, -1], offsets[1:] - 1):
        return None
    kinds = octets[separators].reshape(count, width, 2)
    middle, ends = grid[:, 0::2], grid[:, 1::2]
    starts = np.empty((count, width), np.int64)
    starts[:, 0] = offsets[:-1]
    starts[:, 1:] = ends[:, :-1] + 1
    lengths = middle - starts
    if not ((kinds == (NAME_END, PAIR_END)).all() and (lengths == lengths[0]).all() and (ends > middle + 1).all()):
        return None
    names = slices(buffer, starts.reshape(-1), middle.reshape(-1))
    letters = np.frombuffer(names.buffers()[2] or b"", np.uint8)[: count * int(lengths[0].sum())].reshape(count, -1)
    if not (lengths[0] > 0).all() or not (letters == letters[0]).all():
        return None
    raw.cast(pa.string())  # Between separators, which are ASCII, the parts of UTF-8 are UTF-8.
    template = [name.decode() for name in names[:width].to_pylist()]
    kept = sorted({name: at for at, name in enumerate(template)}.values())
    if len(kept) < width:  # of equal names the last counts
        template = [template[at] for at in kept]
        starts, middle, ends = starts[:, kept], middle[:, kept], ends[:, kept]
        names = slices(buffer, starts.reshape(-1), middle.reshape(-1))
    values = slices(buffer, middle.reshape(-1) + 1, ends.reshape(-1))
    return UniformPairs(count, template, _as_text(names), _as_text(values))


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    """Return texts as they stand between the quotes of JSON. Few have a letter that stands there otherwise."""
    octets = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if not ((octets < _FIRST_PRINTABLE) | (octets == _QUOTE) | (octets == _BACKSLASH)).any():
        return texts
    return pa.array([msgspec.json.encode(text).decode()[1:-1] for text in texts.to_pylist()], pa.string())


def _as_text(array: pa.BinaryArray) -> pa.StringArray:
    """Return bytes that are known to be UTF-8 as text."""
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers())


def _bytes_of(raw: pa.BinaryArray) -> tuple[pa.Buffer, npt.NDArray[np.uint8], Indices]:
    """Return the bytes of all rows as a buffer and as numbers, and where each row begins in them, and the end."""
    offsets = np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
    data = raw.buffers()[2] or pa.py_buffer(b"")
    octets = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return data.slice(int(offsets[0]), len(octets)), octets, offsets - offsets[0]


def parse_mixed(raw: pa.BinaryArray) -> MixedPairs:
    """Return the properties of any rows. Raises pa.ArrowInvalid for bytes that are not UTF-8."""
    count = len(raw)
    buffer, octets, offsets = _bytes_of(raw)
    if not len(octets):
        empty = pa.array([], pa.string())
        return MixedPairs(count, np.empty(0, np.int64), empty, empty)
    starts, ends = _pair_bounds(octets, offsets)
    separators = np.flatnonzero(octets == NAME_END)
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
    return MixedPairs(count, row_of, names, values)


def _are_pairs(starts: Indices, middle: Indices, ends: Indices) -> npt.NDArray[np.bool_]:
    """Return which triples enclose a name and a value; one False if the numbers of separators and pairs differ."""
    if len(middle) != len(starts):
        return np.zeros(1, np.bool_)
    return (middle > starts) & (middle + 1 < ends)


def _rows_of(starts: Indices, offsets: Indices) -> Indices:
    """Return the row of each pair, from the starts of the pairs and the rows' offsets."""
    return np.searchsorted(offsets, starts, side="right") - 1


def _pair_bounds(octets: npt.NDArray[np.uint8], offsets: Indices) -> tuple[Indices, Indices]:
    """Return the starts and ends of pairs. A pair ends at 0x02, or at the row's end if clients left that out.

    Clients 4.9.4 to 5.0.0 do so.
    """
    ends = np.flatnonzero(octets == PAIR_END)
    nexts = ends + 1
    row_ends = offsets[1:][np.diff(offsets) > 0]
    open_ends = row_ends[octets[row_ends - 1] != PAIR_END]
    if len(open_ends):
        # At the same position the open end comes first: it belongs to the earlier row.
        order = np.argsort(np.concatenate((ends * 2 + 1, open_ends * 2)), kind="stable")
        ends = np.concatenate((ends, open_ends))[order]
        nexts = np.concatenate((nexts, open_ends))[order]
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = nexts[:-1]
    return starts, ends


def _last_of_equal(row_of: Indices, codes: Indices, code_count: int) -> Indices | None:
    """Return the indices of the pairs to keep if a row has a name more than once; None if no row does."""
    kept = _last_positions(row_of * code_count + codes)
    return None if len(kept) == len(codes) else kept


def _last_positions(codes: Indices) -> Indices:
    """Return the ascending positions of the last occurrence of every code."""
    _, first_from_end = np.unique(codes[::-1], return_index=True)
    return np.sort(len(codes) - 1 - first_from_end)


def parse_one_by_one(raw: pa.BinaryArray) -> MixedPairs:
    """Return the properties of any bytes, with U+FFFD for bytes that are not UTF-8."""
    row_of: list[int] = []
    names: list[str] = []
    values: list[str] = []
    for row, properties in enumerate(raw.to_pylist()):
        for name, value in decode_properties(properties).items():
            row_of.append(row)
            names.append(name)
            values.append(value)
    texts = pa.array(names, pa.string()), pa.array(values, pa.string())
    return MixedPairs(len(raw), np.array(row_of, np.int64), *texts)
