"""The log of an export that keeps the latest message of each key in a Delta table, by delta-rs's MERGE.

Tasks stage the rows of a round. Its commit merges the last row of each key, and carries the ends of the queues as that
of :class:`~pymq.spark.tables.delta_log.DeltaLog` does. A row takes the place of an older one of its topic and key, by
store time and then by offset, so rows that come late or again change nothing. An empty body takes the key's row away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties

from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.places.object_paths import ObjectPath
from pymq.spark.places.places import Place
from pymq.spark.tables.delta_log import DeltaLog

if TYPE_CHECKING:
    from pymq.spark.planning.identity import Mark

# The rows of a merge are in the driver's memory; a row group of the tasks has some 32 MiB.
MERGED_BYTES: Final = 256 << 20
_DELETED: Final = "_deleted"
_IS_NEWER: Final = (
    "(s.`storeTimestamp` > t.`storeTimestamp` OR "
    "(s.`storeTimestamp` = t.`storeTimestamp` AND s.`queueOffset` >= t.`queueOffset`))"
)


class DeltaUpserts(DeltaLog):
    """A Delta table with one row for each topic and key. Rows without a key are left out."""

    def __init__(self, output: Place, settings: dict[str, Any], schema: pa.Schema) -> None:
        """See :class:`~pymq.spark.tables.delta_log.DeltaLog`; ``settings`` name the column ``key``."""
        super().__init__(output, settings, schema)
        self._key: str = settings["key"]
        self._rows: list[pa.Table] = []
        self.layout = Layout(str(output), self.layout.columns, tuple(settings["partition_by"]), keeps_levels=True)

    def commit(self, parts: Sequence[dict[str, Any]], marks: Sequence[Mark] = ()) -> int:
        """Merge the rows of these ranges, in one commit or in several of at most some :data:`MERGED_BYTES` each.

        Files are in the order of their offsets, so what a commit has merged ends at an offset of each queue.
        """
        ends: list[dict[str, Any]] = []
        size_bytes = 0
        for part in sorted(parts, key=lambda part: part["from_offset"]):
            for rows in self._row_groups(part):
                self._rows.append(rows)
                size_bytes += rows.nbytes
                if size_bytes >= MERGED_BYTES:
                    super().commit([*ends, {**part, "to_offset": rows.column("queueOffset")[-1].as_py() + 1}])
                    ends, size_bytes = [], 0
            ends.append(part)
        return super().commit(ends, marks)

    def _add(self, parts: Sequence[dict[str, Any]], properties: CommitProperties) -> None:
        rows = latest(pa.concat_tables(self._rows), self._key) if self._rows else None
        self._rows = []
        if rows is not None and rows.num_rows:
            self._merge(rows, properties)
            self._table.update_incremental()
        if self._committed_number() == self._state.number:  # no row has changed, so delta-rs wrote nothing
            super()._add((), properties)

    def _row_groups(self, part: dict[str, Any]) -> Iterator[pa.Table]:
        """Yield the staged rows of a range, a row group at a time."""
        for file in part["files"]:
            place = self.output / file["staged"]
            source = place.open_input() if isinstance(place, ObjectPath) else place
            with pq.ParquetFile(source) as opened:
                for number in range(opened.num_row_groups):
                    yield opened.read_row_group(number)

    def _merge(self, rows: pa.Table, properties: CommitProperties) -> None:
        columns = [name for name in self._schema.names if name in rows.schema.names]
        values = {f"`{name}`": f"s.`{name}`" for name in columns}
        (
            self._table.merge(
                rows,
                f"t.`topic` = s.`topic` AND t.`{self._key}` = s.`{self._key}`",
                source_alias="s",
                target_alias="t",
                commit_properties=properties,
            )
            .when_matched_delete(f"s.`{_DELETED}` AND {_IS_NEWER}")
            .when_matched_update(values, f"NOT s.`{_DELETED}` AND {_IS_NEWER}")
            .when_not_matched_insert(values, f"NOT s.`{_DELETED}`")
            .execute()
        )


def latest(rows: pa.Table, key: str) -> pa.Table:
    """Return the last row of each topic and key, by store time and offset, with whether it takes the key's row away."""
    rows = rows.filter(pc.is_valid(rows.column(key)))
    rows = rows.sort_by([(name, "ascending") for name in ("topic", key, "storeTimestamp", "queueOffset")])
    if rows.num_rows:
        topics, keys = (rows.column(name).combine_chunks() for name in ("topic", key))
        is_same = pc.and_(pc.equal(topics[:-1], topics[1:]), pc.equal(keys[:-1], keys[1:]))
        is_last = np.append(~is_same.to_numpy(zero_copy_only=False), True)
        rows = rows.filter(pa.array(is_last))
    body = rows.column("body")
    is_empty = pc.or_(pc.is_null(body), pc.equal(pc.fill_null(pc.binary_length(body), 0), 0))
    return rows.append_column(_DELETED, is_empty)
