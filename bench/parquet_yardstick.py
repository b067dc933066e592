"""What this machine writes to Parquet without Spark, broker or socket: records in memory, two processes with pyarrow.

:mod:`bench.spark_cases` runs it, with BODY_BYTES ROWS DIRECTORY, and compares Spark's rates with it: figures
of another day's machine can't be compared with today's.
"""

import json
import multiprocessing
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from bench.frames import words
from pymq.model.hosts import pack_host
from pymq.model.record import encode_record
from pymq.spark.records.layout import Layout, Positions, find_fields, find_starts

PROCESSES = 2
CHUNK_ROWS = 8192
ROW_GROUP_CHUNKS = 16
ZSTD_LEVEL = 3
HOST = pack_host("127.0.0.1", 10911)
BORN_MS = 1_767_225_600_000
PROPERTIES = b"UNIQ_KEY\x01FD000000000000000000024A%08X\x02WAIT\x01true\x02TAGS\x01bench\x02"


def main(body_bytes: int, rows: int, directory: Path) -> None:
    """Prints the rows per second of two processes together."""
    directory.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    ready, begin = context.Barrier(PROCESSES + 1), context.Barrier(PROCESSES + 1)
    arguments = [(ready, begin, body_bytes, rows // PROCESSES, directory / f"{n}.parquet") for n in range(PROCESSES)]
    workers = [context.Process(target=_work, args=given) for given in arguments]
    for worker in workers:
        worker.start()
    ready.wait()
    begin.wait()
    begun_s = time.monotonic()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("a process of the yardstick failed")
    print(json.dumps(rows // PROCESSES * PROCESSES / (time.monotonic() - begun_s)))


def _work(ready: object, begin: object, body_bytes: int, rows: int, target: Path) -> None:
    chunk = _records(body_bytes)
    write_chunks(chunk, CHUNK_ROWS, target)
    ready.wait()  # type: ignore[attr-defined]
    begin.wait()  # type: ignore[attr-defined]
    write_chunks(chunk, rows, target)


def write_chunks(chunk: bytes, rows: int, target: Path) -> None:
    """Decodes and writes a chunk of ``CHUNK_ROWS`` records again and again, until about ``rows`` rows are there."""
    pending: list[pa.RecordBatch] = []
    with parquet.ParquetWriter(target, _decoded(chunk).schema, compression="zstd", compression_level=ZSTD_LEVEL) as out:
        for number in range(1, -(-rows // CHUNK_ROWS) + 1):
            pending.append(_decoded(chunk))
            if number % ROW_GROUP_CHUNKS == 0:
                out.write_table(pa.Table.from_batches(pending))
                pending = []
        if pending:
            out.write_table(pa.Table.from_batches(pending))


def _records(body_bytes: int) -> bytes:
    text = words().tobytes()
    return b"".join(
        encode_record(
            topic=b"yardstick", queue_id=1, queue_offset=n, physical_offset=n * 1000,
            body=text[n * body_bytes : (n + 1) * body_bytes],
            properties=PROPERTIES % n, flag=0, sys_flag=0, born_timestamp_ms=BORN_MS + n, born_host=HOST,
            store_timestamp_ms=BORN_MS + n, store_host=HOST,
        )
        for n in range(CHUNK_ROWS)
    )  # fmt: skip


def _decoded(chunk: bytes) -> pa.RecordBatch:
    """Returns eight columns: names, offsets, times, the body, and the properties as they are stored."""
    fields = find_fields(chunk, find_starts(chunk))
    count = len(fields)
    columns = {
        "topic": fields.slices(fields.topic, fields.topic_end).cast(pa.string()),
        "brokerName": pa.repeat(pa.scalar("broker-a"), count),
        "queueId": pa.array(fields.int32(fields.starts + 12)),
        "queueOffset": pa.array(fields.int64(fields.starts + 20)),
        "body": fields.slices(fields.body, fields.body_end),
        "properties": fields.slices(fields.properties, fields.end).cast(pa.string()),
        "bornTimestamp": _times(fields, fields.starts + 40),
        "storeTimestamp": _times(fields, fields.store_timestamp),
    }
    return pa.RecordBatch.from_pydict(columns)


def _times(fields: Layout, positions: Positions) -> pa.Array:
    return pa.array(fields.int64(positions) * 1000).cast(pa.timestamp("us", tz="UTC"))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
