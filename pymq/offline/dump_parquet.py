"""Writes dumped messages to a Parquet file in row groups. Needs pyarrow, which the ``spark`` extra installs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymq.errors import UsageError
from pymq.model.record import StoredMessage
from pymq.offline.dump import head_fields
from pymq.packages import pip_install

ROWS_PER_GROUP_MAX = 50_000
BYTES_PER_GROUP_MAX = 32 << 20  # of bodies


def write_parquet(path: str, messages: Iterable[tuple[StoredMessage, bytes | None]]) -> None:
    """Write one row per message, with the body as bytes. Raises UsageError without pyarrow, OSError."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - only this output needs it
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise UsageError(f"Parquet needs pyarrow: {pip_install('spark')}, or write -o jsonl") from None
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("queueId", pa.int32()),
            ("queueOffset", pa.int64()),
            ("commitLogOffset", pa.int64()),
            ("storeSize", pa.int32()),
            ("msgId", pa.string()),
            ("keys", pa.string()),
            ("tags", pa.string()),
            ("properties", pa.map_(pa.string(), pa.string())),
            ("body", pa.binary()),
        ]
    )
    rows: list[dict[str, Any]] = []
    size = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for message, content in messages:
            properties = list(message.properties.items())
            rows.append({**head_fields(message), "properties": properties, "body": content})
            size += message.size_bytes
            if len(rows) >= ROWS_PER_GROUP_MAX or size >= BYTES_PER_GROUP_MAX:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows, size = [], 0
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema))
