"""Decodes records to Arrow, all rows of a chunk at once; a property test compares it with ``pymq.model.record``.

Compressed bodies are inflated and lose the compressed bit of ``sysFlag``, as in Java's client. A body that can't be
inflated, or only beyond an InflationBudget, stays as stored and keeps the bit: a damaged message never stops a
pipeline, and the bit identifies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pymq.model import properties, sysflag
from pymq.model.compression import INFLATION_RATIO_MAX, InflateError
from pymq.model.hosts import unpack_address
from pymq.model.ids import encode_offset_id
from pymq.model.inflation import InflationBudget
from pymq.model.layout import (
    BORN_HOST_AT,
    BORN_TIMESTAMP_AT,
    FLAG_AT,
    HOST_V4_SIZE_BYTES,
    HOST_V6_SIZE_BYTES,
    I64,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
)
from pymq.model.record import MalformedRecordError
from pymq.spark.bodies.body_format import BodyFormat
from pymq.spark.records.bodies import BodyDecoder, arrow_type
from pymq.spark.records.layout import Chunk, Layout, Positions, find_fields, find_starts
from pymq.spark.records.property_columns import PropertyPairs, parse_properties
from pymq.spark.records.schema import BAD_RECORD, BODY, BY_NAME, arrow_schema, check_columns, property_of
from pymq.spark.records.typed_columns import TypedColumns
from pymq.spark.settings import BodyErrors

# The limit of inflated bytes in one batch; more go into further batches.
INFLATED_BATCH_MAX_BYTES = 64 * 1024 * 1024
# Years 1 to 9999, in Unix ms: producers set the born time, and tools can't show times outside.
TIME_MIN_MS = -62_135_596_800_000
TIME_MAX_MS = 253_402_300_799_999

# What Kafka's column timestampType holds where the broker sets the time.
KAFKA_LOG_APPEND_TIME = 1

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


class Decoder:
    """Decodes the chunks of one range into RecordBatches of the chosen columns.

    Only the InflationBudget is kept between chunks: what two reads of a range inflate is the same.
    """

    def __init__(
        self,
        broker_name: str,
        columns: Sequence[str] = (),
        *,
        inflation_ratio_max: int = INFLATION_RATIO_MAX,
        body_errors: BodyErrors = "replace",
        body_form: str = "",
        registry: str = "",
        body_schema: BodyFormat | None = None,
    ) -> None:
        """``body_errors``: whether a body that is not UTF-8 fails the column ``bodyText`` or comes with U+FFFD.

        It says the same of ``body`` in the form of text; in the form of JSON, and in the column ``bodyJson`` by the
        schemas of ``registry``, other bodies fail, or are null. ``body_schema`` makes ``body`` a column of its types.
        """
        self.columns = check_columns(columns)
        self.schema = arrow_schema(self.columns)
        if body_form and "body" in self.columns:
            at = self.columns.index("body")
            self.schema = self.schema.set(at, pa.field("body", arrow_type(body_form)))
        self._body_decoder = BodyDecoder(body_form, fails=body_errors == "fail", registry=registry)
        self._typed: TypedColumns | None = None
        if body_schema is not None and not {BODY, BAD_RECORD}.isdisjoint(self.columns):
            self._typed = TypedColumns(body_schema)
            if BODY in self.columns:
                body = pa.field(BODY, self._typed.arrow_type)
                self.schema = self.schema.set(self.columns.index(BODY), body)
        self._broker_name = broker_name
        self._inflation = InflationBudget(inflation_ratio_max)

    def decode(
        self, chunk: Chunk, starts: Positions | None = None, layout: Layout | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of ``chunk`` (those at ``starts``, if given) in order.

        ``layout``: their fields, if they have been found already.

        Raises MalformedRecordError; UsageError for a body that is not UTF-8, if ``body_errors`` is "fail".
        """
        if starts is None:
            starts = find_starts(chunk)
        if not len(starts):
            return
        layout = layout or find_fields(chunk, starts)
        compressed = np.flatnonzero(layout.sys_flag & sysflag.COMPRESSED)
        if not len(compressed):
            yield from self._columns(layout, {})
            return
        first, size = 0, 0
        inflated: dict[int, bytes] = {}
        for row in compressed.tolist():
            body = self._inflate(layout, row)
            if body is None:
                continue
            if inflated and size + len(body) > INFLATED_BATCH_MAX_BYTES:
                yield from self._part(chunk, starts[first:row], inflated)
                first, size, inflated = row, 0, {}
            inflated[row - first] = body
            size += len(body)
        yield from self._part(chunk, starts[first:], inflated)

    def _inflate(self, layout: Layout, row: int) -> bytes | None:
        stored = layout.octets[layout.body[row] : layout.body_end[row]].tobytes()
        size_bytes = int(layout.end[row] - layout.starts[row])
        try:
            return self._inflation.decompress(stored, int(layout.sys_flag[row]), size_bytes)
        except InflateError:
            return None

    def _part(self, chunk: Chunk, starts: Positions, inflated: dict[int, bytes]) -> Iterator[pa.RecordBatch]:
        return self._columns(find_fields(chunk, starts), inflated)

    def _columns(self, layout: Layout, inflated: dict[int, bytes]) -> Iterator[pa.RecordBatch]:
        columns = _Columns(layout, self._broker_name, inflated, self._body_decoder)
        if self._typed is None:
            yield columns.batch(self.schema)
            return
        yield from self._typed.batches(self.schema, columns, columns.unread())


class _Columns:
    """Builds each requested column; parses properties and bodies at most once."""

    def __init__(self, layout: Layout, broker_name: str, inflated: dict[int, bytes], body_decoder: BodyDecoder) -> None:
        self.layout = layout
        self._body_decoder = body_decoder
        self._broker_name = broker_name
        self._inflated = inflated
        self._table: PropertyPairs | None = None
        self._bodies: pa.BinaryArray | None = None

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return all columns of the schema."""
        return pa.RecordBatch.from_arrays([self.column(name) for name in schema.names], schema=schema)

    def column(self, name: str) -> pa.Array:
        """Return one column by its name."""
        property_name = property_of(name)
        return _BUILDERS[name](self) if property_name is None else self.properties().values_of(property_name)

    def properties(self) -> PropertyPairs:
        """Return the parsed properties."""
        if self._table is None:
            self._table = parse_properties(self.layout.slices(self.layout.properties, self.layout.end))
        return self._table

    def topic(self) -> pa.Array:
        """Return the stored topics."""
        try:
            return self.layout.slices(self.layout.topic, self.layout.topic_end).cast(pa.string())
        except pa.ArrowInvalid as error:
            raise MalformedRecordError(f"a record's topic is not UTF-8: {error}") from error

    def broker_name(self) -> pa.Array:
        """Return the name of the broker that was asked, for each row."""
        return pa.repeat(pa.scalar(self._broker_name, pa.string()), len(self.layout))

    def fixed_int32(self, at: int) -> pa.Array:
        """Return a 32-bit field at a fixed position."""
        return pa.array(self.layout.int32(self.layout.starts + at))

    def fixed_int64(self, at: int) -> pa.Array:
        """Return a 64-bit field at a fixed position."""
        return pa.array(self.layout.int64(self.layout.starts + at))

    def message_id(self) -> pa.Array:
        """Return the unique keys, or the offset message id of a message without one."""
        unique = self.properties().values_of(properties.UNIQ_KEY)
        if not unique.null_count:
            return unique
        missing = unique.is_null()
        rows = np.flatnonzero(missing.to_numpy(zero_copy_only=False))
        return pc.replace_with_mask(unique, missing, self._offset_ids(rows))

    def _offset_ids(self, rows: Positions) -> pa.Array:
        layout = self.layout
        hosts = layout.store_timestamp[rows] + I64.size
        offsets = layout.starts[rows] + PHYSICAL_OFFSET_AT
        if (layout.sys_flag[rows] & sysflag.STORE_HOST_V6).any():
            physical = layout.int64(offsets).tolist()
            sizes = np.where(
                layout.sys_flag[rows] & sysflag.STORE_HOST_V6, HOST_V6_SIZE_BYTES, HOST_V4_SIZE_BYTES
            ).tolist()
            raw = [layout.octets[at : at + size].tobytes() for at, size in zip(hosts.tolist(), sizes, strict=True)]
            return pa.array([encode_offset_id(h, p) for h, p in zip(raw, physical, strict=True)], pa.string())
        octets = np.concatenate((layout.octet_rows(hosts, 8), layout.octet_rows(offsets, 8)), axis=1)
        text = np.empty((len(rows), 32), np.uint8)
        text[:, 0::2] = _HEX[octets >> 4]
        text[:, 1::2] = _HEX[octets & 15]
        ends = np.arange(0, 32 * len(rows) + 1, 32, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(text)])

    def body(self) -> pa.Array:
        """Return the bodies as their producers wrote them."""
        if self._bodies is None:
            stored = self.layout.slices(self.layout.body, self.layout.body_end)
            self._bodies = self._with_inflated(stored)
        return self._bodies

    def unread(self) -> list[int]:
        """Return the rows whose bodies are still compressed."""
        compressed: list[int] = np.flatnonzero(self.layout.sys_flag & sysflag.COMPRESSED).tolist()
        return [row for row in compressed if row not in self._inflated]

    def _with_inflated(self, stored: pa.BinaryArray) -> pa.BinaryArray:
        if not self._inflated:
            return stored
        mask = np.zeros(len(stored), np.bool_)
        mask[list(self._inflated)] = True
        return pc.replace_with_mask(stored, pa.array(mask), pa.array(list(self._inflated.values()), pa.binary()))

    def body_text(self) -> pa.Array:
        """Return the bodies as text. Bytes that are not UTF-8 become U+FFFD, or raise UsageError."""
        return self._body_decoder.text(self.body(), self.row_id)

    def formed_body(self) -> pa.Array:
        """Return the bodies in the form that was asked for."""
        return self._body_decoder.formed(self.body(), self.row_id)

    def row_id(self) -> pa.Array:
        """Return ``topic/broker/queue@offset``, which no other message of the cluster has."""
        queue_ids = self.fixed_int32(QUEUE_ID_AT).cast(pa.string())
        offsets = self.fixed_int64(QUEUE_OFFSET_AT).cast(pa.string())
        places = pc.binary_join_element_wise(self.topic(), self._broker_name, queue_ids, "/")
        return pc.binary_join_element_wise(places, offsets, "@")

    def time(self, positions: Positions) -> pa.Array:
        """Return a field in ms as timestamps; null outside the years 1 to 9999."""
        times_ms = self.layout.int64(positions)
        outside = (times_ms < TIME_MIN_MS) | (times_ms > TIME_MAX_MS)
        times_us = np.where(outside, 0, times_ms) * 1000
        return pa.array(times_us, mask=outside).cast(pa.timestamp("us", tz="UTC"))

    def born_host(self) -> pa.Array:
        """Return ``host:port`` of the producers."""
        layout = self.layout
        positions = layout.starts + BORN_HOST_AT
        wide = (layout.sys_flag & sysflag.BORN_HOST_V6) != 0
        if wide.any():
            ends = positions + np.where(wide, HOST_V6_SIZE_BYTES, HOST_V4_SIZE_BYTES)
            hosts = layout.slices(positions, ends).dictionary_encode()
            texts = [unpack_address(raw) for raw in hosts.dictionary.to_pylist()]
            return pa.array(texts, pa.string()).take(hosts.indices)
        distinct, which = np.unique(layout.int64(positions), return_inverse=True)
        texts = [unpack_address(int(number).to_bytes(8, "big", signed=True)) for number in distinct]
        return pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))

    def sys_flag(self) -> pa.Array:
        """Return the flags, without the compressed bit for inflated bodies."""
        flags = self.layout.sys_flag
        if self._inflated:
            flags = flags.copy()
            flags[list(self._inflated)] &= ~sysflag.COMPRESSED
        return pa.array(flags)


_BUILDERS: dict[str, Callable[[_Columns], pa.Array]] = {
    "topic": _Columns.topic,
    "brokerName": _Columns.broker_name,
    "queueId": lambda c: c.fixed_int32(QUEUE_ID_AT),
    "queueOffset": lambda c: c.fixed_int64(QUEUE_OFFSET_AT),
    "msgId": _Columns.message_id,
    "tags": lambda c: c.properties().values_of(properties.TAGS),
    "keys": lambda c: c.properties().values_of(properties.KEYS),
    "body": _Columns.formed_body,
    "properties": lambda c: c.properties().maps(),
    "bornTimestamp": lambda c: c.time(c.layout.starts + BORN_TIMESTAMP_AT),
    "storeTimestamp": lambda c: c.time(c.layout.store_timestamp),
    "reconsumeTimes": lambda c: pa.array(c.layout.int32(c.layout.reconsume)),
    "bornHost": _Columns.born_host,
    "sysFlag": _Columns.sys_flag,
    "bodyText": _Columns.body_text,
    "bodyJson": lambda c: c._body_decoder.by_registry(c.topic(), c.body(), c.row_id),
    "propertiesJson": lambda c: c.properties().json_texts(),
    "physicalOffset": lambda c: c.fixed_int64(PHYSICAL_OFFSET_AT),
    "flag": lambda c: c.fixed_int32(FLAG_AT),
    "liteTopic": lambda c: c.properties().values_of(properties.LITE_TOPIC),
    "rowId": _Columns.row_id,
    BAD_RECORD: lambda c: pa.nulls(len(c.layout), BY_NAME[BAD_RECORD].arrow),
    "key": lambda c: c.properties().values_of(properties.KEYS).cast(pa.binary()),
    "value": _Columns.body,
    "partition": lambda c: c.fixed_int32(QUEUE_ID_AT),
    "offset": lambda c: c.fixed_int64(QUEUE_OFFSET_AT),
    "timestamp": lambda c: c.time(c.layout.store_timestamp),
    "timestampType": lambda c: pa.repeat(pa.scalar(KAFKA_LOG_APPEND_TIME, pa.int32()), len(c.layout)),
    "headers": lambda c: c.properties().headers(),
}
assert set(_BUILDERS) == set(BY_NAME)
