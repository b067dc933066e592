"""Rows of messages, made one by one: the reference for :mod:`pymq.spark.records.decode`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from pymq.model import sysflag
from pymq.model.compression import InflateError
from pymq.model.hosts import format_address
from pymq.model.record import StoredMessage
from pymq.spark.records.decode import KAFKA_LOG_APPEND_TIME, TIME_MAX_MS, TIME_MIN_MS
from pymq.spark.records.schema import arrow_schema, check_columns, column_of, property_of


def decode_plain(messages: Sequence[StoredMessage], broker_name: str, columns: Sequence[str] = ()) -> pa.RecordBatch:
    """Return the rows of messages that were decoded one by one: slow and simple."""
    names = check_columns(columns)
    rows = [_plain_row(message, broker_name) for message in messages]
    for row, message in zip(rows, messages, strict=True):
        row |= {name: message.properties.get(property_of(name) or "") for name in names if property_of(name)}
    arrays = [pa.array([row[name] for row in rows], column_of(name).arrow) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(names))


def _plain_row(message: StoredMessage, broker_name: str) -> dict[str, object]:
    flags = message.sys_flag
    try:
        body = message.content()
        flags &= ~sysflag.COMPRESSED
    except InflateError:
        body = message.body
    return {
        "topic": message.topic,
        "brokerName": broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "tags": message.tags or None,
        "keys": message.keys or None,
        "body": body,
        "properties": list(message.properties.items()),
        "bornTimestamp": _plain_time_us(message.born_timestamp_ms),
        "storeTimestamp": _plain_time_us(message.store_timestamp_ms),
        "reconsumeTimes": message.reconsume_times,
        "bornHost": format_address(*message.born_address),
        "sysFlag": flags,
        "bodyText": body.decode("utf-8", "replace"),
        "propertiesJson": json.dumps(message.properties),
        "physicalOffset": message.physical_offset,
        "flag": message.flag,
        "liteTopic": message.properties.get("__LITE_TOPIC"),
        "rowId": f"{message.topic}/{broker_name}/{message.queue_id}@{message.queue_offset}",
        "badRecord": None,
        "key": message.keys.encode() if message.keys else None,
        "value": body,
        "partition": message.queue_id,
        "offset": message.queue_offset,
        "timestamp": _plain_time_us(message.store_timestamp_ms),
        "timestampType": KAFKA_LOG_APPEND_TIME,
        "headers": [{"key": name, "value": value.encode()} for name, value in message.properties.items()],
    }


def _plain_time_us(time_ms: int) -> int | None:
    return time_ms * 1000 if TIME_MIN_MS <= time_ms <= TIME_MAX_MS else None
