"""Turns rows of Arrow into the requests that send them: batches for each queue, as the client's producer makes them.

Every row gets a message id from what it holds, so that a repetition of it has the same id: the digest of the write's
id, the partition, the queue, the body and the properties, and of how often an equal row came before in this partition.
It does not depend on the order of rows, which Spark may change when it computes a partition again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pymq.client.outgoing import BATCHED_SIZE_MAX_BYTES, BODY_SIZE_MAX_BYTES, Outgoing, pack_body, wait_property
from pymq.client.parcel import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from pymq.errors import UsageError
from pymq.model import properties as names
from pymq.model.javahash import string_hash
from pymq.model.layout import BATCH_ENTRY_HEAD, BATCH_ENTRY_OVERHEAD_BYTES, I16, PROPERTIES_SIZE_MAX_BYTES
from pymq.model.message import DELAY_LEVEL_MAX, KEY_SEPARATOR, MessageQueue
from pymq.model.names import RETRY_PREFIX
from pymq.spark.sink.message_properties import Bits, Encoded, RowError, encode_pairs, one_property
from pymq.spark.sink.seen_hashes import Occurrences

COMPRESS_ABOVE_BYTES = 4096
# Longer keys, and keys that are not ASCII, are hashed one by one.
COLUMNS_MAX = 64
ID_SIZE_BYTES = 16
_WAIT = wait_property(True)
_SHORTEN = "shorten it, raise maxBodyBytes here and maxMessageSize at the broker"
_NO_QUEUE = -1

Queues = Callable[[str], Sequence[MessageQueue]]
Request = tuple[Outgoing, MessageQueue]
Numbers = npt.NDArray[np.int64]


class Unsendable(NamedTuple):
    """A row that no broker takes: its place in the batch, why, and what to do about it."""

    row: int
    reason: str
    next_step: str


@dataclass(slots=True)
class Requests:
    """What sends the rows of a batch, in order for each queue; the rows of each topic; the rows that can't be sent."""

    requests: list[Request] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    unsendable: list[Unsendable] = field(default_factory=list)


class RowEncoder:
    """Encodes the rows of one partition of one write."""

    def __init__(
        self,
        write_id: str,
        partition: int,
        queues: Queues,
        *,
        topic: str = "",
        copies_properties: bool = False,
        body_size_max_bytes: int = BODY_SIZE_MAX_BYTES,
    ) -> None:
        """``queues`` returns the writable queues of a topic. ``topic`` is for rows without one."""
        self._start = f"{write_id}\n{partition}\n".encode()
        self._queues = queues
        self._topic = topic
        self._copies = copies_properties
        self._body_max = body_size_max_bytes
        self._seen: dict[str, Occurrences] = {}

    def encode(self, batch: pa.RecordBatch) -> Requests:
        """Return the requests for all rows, and those whose size no broker takes. Raises RowError for other faults."""
        found = Requests()
        for topic, rows in self._topics(batch):
            part = batch if rows is None else batch.take(pa.array(rows))
            try:
                self._encode_topic(part, topic, rows, found)
            except RowError as error:
                if rows is None:
                    raise
                raise RowError(int(rows[error.row]), str(error)) from None
        return found

    def _topics(self, batch: pa.RecordBatch) -> list[tuple[str, Numbers | None]]:
        """Return each topic with its rows; None for all of them."""
        column = _column(batch, "topic")
        if column is None:
            return [(self._topic, None)] if batch.num_rows else []
        if column.null_count:
            if not self._topic:
                row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
                raise RowError(row, 'its topic is null: fill it, or write .option("topic", NAME) for such rows')
            column = pc.fill_null(column, self._topic)
        encoded = column.dictionary_encode()
        topics = encoded.dictionary.to_pylist()
        if len(topics) == 1:
            return [(topics[0], None)]
        codes = encoded.indices.to_numpy()
        return [(topic, np.flatnonzero(codes == code)) for code, topic in enumerate(topics)]

    def _encode_topic(self, batch: pa.RecordBatch, topic: str, rows: Numbers | None, found: Requests) -> None:
        queues = self._queues_of(topic)
        bodies, is_null = _bodies(batch)
        own = self._properties(batch)
        fixed = _chosen_queues(batch, topic, queues)
        sharding = _sharding(batch)
        texts = own.texts.to_pylist()
        ids, hashes = self._ids(topic, bodies, texts, sharding, fixed)
        places = np.where(fixed == _NO_QUEUE, (hashes % np.uint64(len(queues))).astype(np.int64), fixed)
        is_alone = own.is_alone | topic.startswith(RETRY_PREFIX)
        properties = [
            text + tail if has_id else b"%bUNIQ_KEY\x01%b\x02%b" % (text, own_id, tail)
            for text, own_id, tail, has_id in zip(texts, ids, sharding, own.has_id.tolist(), strict=True)
        ]
        left_out = self._unsendable(bodies, is_null, properties)
        found.unsendable += [
            one if rows is None else one._replace(row=int(rows[one.row])) for _, one in sorted(left_out.items())
        ]
        found.counts[topic] = found.counts.get(topic, 0) + len(bodies) - len(left_out)
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(len(queues) + 1))
        for at, queue in enumerate(queues):
            chosen = order[bounds[at] : bounds[at + 1]].tolist()
            if left_out:
                chosen = [row for row in chosen if row not in left_out]
            found.requests += _requests(topic, queue, chosen, bodies, properties, is_alone)

    def _queues_of(self, topic: str) -> Sequence[MessageQueue]:
        try:
            return self._queues(topic)
        except UsageError as error:
            raise RowError(0, str(error)) from None

    def _properties(self, batch: pa.RecordBatch) -> Encoded:
        """Return what rows have before their UNIQ_KEY, in the order of the client's messages."""
        count = batch.num_rows
        pairs = _column(batch, "properties", "headers")
        if pairs is None:
            none = np.zeros(count, np.bool_)
            found = Encoded(pa.array([b""] * count, pa.binary()), none, none)
        else:
            found = encode_pairs(pairs, is_copy=self._copies)
        texts = [found.texts]
        if (tags := _column(batch, "tags")) is not None:
            texts.append(one_property(names.TAGS, tags))
        if (keys := _keys(batch)) is not None:
            texts.append(one_property(names.KEYS, keys))
        delays, is_delayed = _delays(batch)
        texts += delays
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, b"")
        return Encoded(joined, found.has_id, found.is_alone | is_delayed)

    def _ids(
        self, topic: str, bodies: list[bytes], texts: list[bytes], tails: list[bytes], fixed: Numbers
    ) -> tuple[list[bytes], npt.NDArray[np.uint64]]:
        """Return the ids of rows in hex, and a hash of each row."""
        base = blake2b(self._start + topic.encode(), digest_size=ID_SIZE_BYTES)
        digests = []
        for body, text, tail, queue in zip(bodies, texts, tails, fixed.tolist(), strict=True):
            own = base.copy()
            own.update(b"\n%d %d %b%b%b" % (queue, len(body), body, text, tail))
            digests.append(own.digest())
        hashes = np.frombuffer(b"".join(digests), np.uint64)[::2]
        seen = self._seen.setdefault(topic, Occurrences())
        for row, number in seen.numbers(hashes).items():
            digests[row] = blake2b(b"%b %d" % (digests[row], number), digest_size=ID_SIZE_BYTES).digest()
        digits = b"".join(digests).hex().upper().encode()
        size = 2 * ID_SIZE_BYTES
        return [digits[at : at + size] for at in range(0, len(digits), size)], hashes

    def _unsendable(self, bodies: list[bytes], is_null: Bits, properties: list[bytes]) -> dict[int, Unsendable]:
        """Return the rows without a body, and those over a limit."""
        found: dict[int, Unsendable] = {}
        properties_max = PROPERTIES_SIZE_MAX_BYTES - len(_WAIT)
        if all(bodies) and max(map(len, bodies)) <= self._body_max and max(map(len, properties)) <= properties_max:
            return found
        for row, (body, text) in enumerate(zip(bodies, properties, strict=True)):
            if not body:
                reason = "its body is null" if is_null[row] else "its body is empty: brokers refuse that"
                found[row] = Unsendable(row, reason, "give at least one byte")
            elif len(body) > self._body_max:
                reason = f"its body has {len(body)} bytes, the limit is {self._body_max}"
                found[row] = Unsendable(row, reason, _SHORTEN)
            elif len(text) > properties_max:
                reason = f"its properties have {len(text)} bytes, the limit is {properties_max}"
                found[row] = Unsendable(row, reason, "shorten them")
        return found


def _requests(
    topic: str, queue: MessageQueue, rows: list[int], bodies: list[bytes], properties: list[bytes], is_alone: Bits
) -> list[Request]:
    """Return the requests for the rows of one queue."""
    found: list[Request] = []
    pieces: list[bytes] = []
    size = count = last = 0
    has_alone = bool(is_alone.any())

    def close() -> None:
        nonlocal size, count
        if count == 1:
            found.append((_single(topic, bodies[last], properties[last], 0), queue))
        elif count:
            found.append((Outgoing(topic, b"".join(pieces), _WAIT, "", 0, 0, True), queue))
        pieces.clear()
        size = count = 0

    for row in rows:
        body, text = bodies[row], properties[row]
        if (has_alone and is_alone[row]) or len(body) > COMPRESS_ABOVE_BYTES or len(text) > BATCHED_SIZE_MAX_BYTES:
            packed, flags = pack_body(body, "zlib", COMPRESS_ABOVE_BYTES)
            if flags or is_alone[row] or len(text) > BATCHED_SIZE_MAX_BYTES:
                close()
                found.append((_single(topic, packed, text, flags), queue))
                continue
        entry_size = BATCH_ENTRY_OVERHEAD_BYTES + len(body) + len(text)
        if count == BATCH_MESSAGES_MAX or size + entry_size > BATCH_BYTES_MAX:
            close()
        pieces += (BATCH_ENTRY_HEAD.pack(entry_size, 0, 0, 0, len(body)), body, I16.pack(len(text)), text)
        size += entry_size
        count += 1
        last = row
    close()
    return found


def _single(topic: str, body: bytes, properties: bytes, sys_flag: int) -> Outgoing:
    return Outgoing(topic, body, properties.decode() + _WAIT, "", 0, sys_flag, False)


def _column(batch: pa.RecordBatch, *known: str) -> pa.Array | None:
    for name in known:
        if name in batch.schema.names:
            return batch.column(name)
    return None


def _bodies(batch: pa.RecordBatch) -> tuple[list[bytes], Bits]:
    """Return the bodies, empty ones for null, and which are null."""
    column = _column(batch, "body", "value")
    assert column is not None
    bodies = column.cast(pa.binary())
    if column.null_count:
        bodies = pc.fill_null(bodies, b"")
    return bodies.to_pylist(), np.asarray(column.is_null())


def _keys(batch: pa.RecordBatch) -> pa.StringArray | None:
    column = _column(batch, "keys")
    if column is None:
        return _text(batch, "key")
    if not pa.types.is_list(column.type):
        return column
    for row, keys in enumerate(column.to_pylist()):
        for key in keys or ():
            if not key or KEY_SEPARATOR in key:
                raise RowError(row, f"{key!r:.60} is no key: a key has at least one character and no blank")
    return pc.binary_join(column, KEY_SEPARATOR)


def _text(batch: pa.RecordBatch, name: str) -> pa.StringArray | None:
    """Return a column of text or of bytes that are UTF-8."""
    column = _column(batch, name)
    if column is None or pa.types.is_string(column.type):
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        row = next(at for at, value in enumerate(column.to_pylist()) if not _is_utf8(value))
        raise RowError(row, f"its {name} is not UTF-8: keys are text, encode it, for example by base64()") from None


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _sharding(batch: pa.RecordBatch) -> list[bytes]:
    """Return the property with each row's ordering key."""
    keys = _text(batch, "orderingKey")
    if keys is None:
        keys = _text(batch, "key")
    if keys is None:
        return [b""] * batch.num_rows
    _refuse_empty(keys)
    found: list[bytes] = one_property(names.SHARDING_KEY, keys).to_pylist()
    return found


def _refuse_empty(keys: pa.StringArray) -> None:
    empty = np.asarray(pc.fill_null(pc.equal(pc.binary_length(keys), 0), False))
    if empty.any():
        raise RowError(int(np.flatnonzero(empty)[0]), "its key is empty: give at least one character, or null")


def _chosen_queues(batch: pa.RecordBatch, topic: str, queues: Sequence[MessageQueue]) -> Numbers:
    """Return the place of each row's queue by its key or number, -1 for rows without."""
    found = np.full(batch.num_rows, _NO_QUEUE, np.int64)
    keys = next((text for name in ("orderingKey", "key", "queueKey") if (text := _text(batch, name)) is not None), None)
    if keys is not None:
        _refuse_empty(keys)
        there = np.asarray(keys.is_valid())
        found[there] = (key_hashes(keys) % len(queues))[there]
    numbers = _column(batch, "queueId", "partition")
    if numbers is not None:
        brokers = _column(batch, "brokerName")
        _choose_by_number(found, numbers.to_pylist(), brokers.to_pylist() if brokers else None, topic, queues)
    return found


def _choose_by_number(
    found: Numbers,
    numbers: list[int | None],
    brokers: list[str | None] | None,
    topic: str,
    queues: Sequence[MessageQueue],
) -> None:
    places = {(queue.broker_name, queue.queue_id): at for at, queue in enumerate(queues)}
    single = queues[0].broker_name if len({queue.broker_name for queue in queues}) == 1 else None
    for row, number in enumerate(numbers):
        if number is None:
            continue
        broker = (brokers[row] if brokers is not None else None) or single
        if broker is None:
            raise RowError(row, f"queueId {number} of topic {topic} is on several brokers: give the column brokerName")
        place = places.get((broker, number))
        if place is None:
            raise RowError(row, f"topic {topic} has no queue {broker}/{number} that takes writes: see pymq topic route")
        found[row] = place


def _delays(batch: pa.RecordBatch) -> tuple[list[pa.BinaryArray], Bits]:
    """Return the property of a delay, if there is such a column, and which rows are delayed."""
    none = np.zeros(batch.num_rows, np.bool_)
    columns = (("delayLevel", names.DELAY), ("delayMs", names.TIMER_DELAY_MS), ("deliverAt", names.TIMER_DELIVER_MS))
    for name, property_name in columns:
        column: Any = _column(batch, name)
        if column is None:
            continue
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        values = pc.fill_null(column.cast(pa.int64()), 0)
        numbers = values.to_numpy()
        highest = DELAY_LEVEL_MAX if name == "delayLevel" else np.iinfo(np.int64).max
        bad = (numbers < 0) | (numbers > highest)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise RowError(row, f"its {name} is {numbers[row]}: use 0 to {highest}, 0 or null for none")
        texts = pc.if_else(pc.equal(values, 0), "", values.cast(pa.string()))
        return [one_property(property_name, texts)], numbers > 0
    return [], none


def key_hashes(keys: pa.StringArray) -> npt.NDArray[np.int64]:
    """Return the absolute value of each key's hash, 0 for null. A queue's number is that modulo the queues.

    It is the hash of the client's ``queue_of_key``, computed by numpy for many rows at once.
    """
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
