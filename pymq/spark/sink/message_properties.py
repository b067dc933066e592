"""Encodes the properties of many rows at once, in RocketMQ's form, from Arrow columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pymq.client.outgoing import ALONE, FORBIDDEN
from pymq.errors import UsageError
from pymq.model import properties as names

# Left out of copies: what asks a broker to delay or to hide a message, and what each broker adds by itself.
NOT_COPIED = (
    names.DELAY,
    names.TIMER_DELIVER_MS,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    names.TRANSACTION_PREPARED,
    names.WAIT,
    names.MSG_REGION,
    names.TRACE_ON,
    names.CLUSTER,
)
_SEPARATORS = 1, 2

Bits = npt.NDArray[np.bool_]


class RowError(UsageError):
    """What is wrong with a row; ``row`` is its place in the batch."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


class Encoded(NamedTuple):
    """The property strings of rows, which of them have a UNIQ_KEY, and which must not be in a batch."""

    texts: pa.BinaryArray
    has_id: Bits
    is_alone: Bits


def encode_pairs(column: pa.Array, *, is_copy: bool) -> Encoded:
    """Return the properties of a column of maps, or of lists of structs (key, value).

    Pairs with an empty name or value are left out, as RocketMQ does; of a copy also :data:`NOT_COPIED`.
    Raises RowError.
    """
    count = len(column)
    keys, values, offsets = _pairs(column)
    kept = _is_filled(keys) & _is_filled(values)
    if is_copy:
        kept &= ~_is_in(keys, NOT_COPIED)
    else:
        _refuse(
            _is_in(keys, sorted(FORBIDDEN)), offsets, keys, "is RocketMQ's own: choose another name, or use columns"
        )
    if not kept.all():
        chosen = pa.array(np.flatnonzero(kept))
        keys, values = keys.take(chosen), values.take(chosen)
        offsets = np.concatenate(([0], np.cumsum(kept)))[offsets]
    for texts in (keys, values):
        if has_separators(texts):
            bad = np.array([_is_split(text) for text in texts.to_pylist()])
            _refuse(bad, offsets, keys, "has one of the separators 0x01 and 0x02 in its name or value: remove it")
    pairs = pc.binary_join_element_wise(pc.binary_join_element_wise(keys, values, "\x01"), "", "\x02")
    ends = _offsets(pairs)[offsets].astype(np.int32)
    texts = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pairs.buffers()[2]])
    row_of = np.repeat(np.arange(count), np.diff(offsets))
    has_id, is_alone = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    has_id[row_of[_is_in(keys, [names.UNIQ_KEY])]] = True
    is_alone[row_of[_is_in(keys, sorted(ALONE))]] = True
    return Encoded(texts, has_id, is_alone)


def one_property(name: str, column: pa.StringArray) -> pa.BinaryArray:
    """Return one property of each row; nothing for null and for an empty value. Raises RowError."""
    if has_separators(column):
        row = next(row for row, text in enumerate(column.to_pylist()) if text and _is_split(text))
        raise RowError(row, f"its {name} has one of the separators 0x01 and 0x02: remove it")
    joined = pc.binary_join_element_wise(f"{name}\x01", column, "\x02", "")
    return pc.if_else(pa.array(_is_filled(column)), joined, "").cast(pa.binary())


def has_separators(texts: pa.StringArray) -> bool:
    """Return whether a text may have one of the separators of properties."""
    data = texts.buffers()[2]
    if data is None:
        return False
    offsets = _offsets(texts)
    octets = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return bool(((octets == _SEPARATORS[0]) | (octets == _SEPARATORS[1])).any())


def _is_split(text: str) -> bool:
    return names.NAME_VALUE_SEPARATOR in text or names.PROPERTY_SEPARATOR in text


def _pairs(column: pa.Array) -> tuple[pa.StringArray, pa.StringArray, npt.NDArray[np.int64]]:
    """Return all names, all values, and where each row's begin in them, and the end."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    if isinstance(column, pa.MapArray):
        keys, values = column.keys, column.items
    else:
        keys, values = column.values.field("key"), column.values.field("value")
    keys, values = keys.slice(first, count), values.slice(first, count)
    try:
        return keys.cast(pa.string()), values.cast(pa.string()), offsets - first
    except pa.ArrowInvalid:
        row = next(at for at, pairs in enumerate(column.to_pylist()) if not _is_text(pairs))
        raise RowError(
            row, "a header's value is not UTF-8: properties are text, encode it, for example by base64()"
        ) from None


def _is_text(pairs: list[dict[str, bytes]] | None) -> bool:
    try:
        for pair in pairs or ():
            (pair["value"] or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse(bad: Bits, offsets: npt.NDArray[np.int64], keys: pa.StringArray, why: str) -> None:
    """Raise RowError for the first pair that is bad."""
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(offsets, at, side="right")) - 1
        raise RowError(row, f"the property {keys[at].as_py()!r:.60} {why}")


def _is_filled(texts: pa.StringArray) -> Bits:
    filled = pc.fill_null(pc.not_equal(pc.binary_length(texts), 0), False)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)


def _is_in(texts: pa.StringArray, known: tuple[str, ...] | list[str]) -> Bits:
    return np.asarray(pc.is_in(texts, value_set=pa.array(known)).to_numpy(zero_copy_only=False), np.bool_)


def _offsets(texts: pa.Array) -> npt.NDArray[np.int64]:
    buffer = texts.buffers()[1]
    if not len(texts):
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
