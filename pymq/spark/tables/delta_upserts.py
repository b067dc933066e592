"""The log of an export that keeps the latest message of each key in a Delta table, by delta-rs's MERGE.

Tasks stage the rows of a round. Its commit merges the last row of each key, and carries the ends of the queues as that
of :class:`~pymq.spark.tables.delta_log.DeltaLog` does. A row takes the place of an older one of its topic and key, by
store time and then by offset, so rows that come late or again change nothing. An empty body takes the key's row away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties

from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.places.object_paths import ObjectPath
from pymq.spark.places.places import Place
from pymq.spark.tables.delta_log import DeltaLog

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
        self.layout = Layout(str(output), self.layout.columns, tuple(settings["partition_by"]), keeps_levels=True)

    def _add(self, parts: Sequence[dict[str, Any]], properties: CommitProperties) -> None:
        rows = latest(self._staged(parts), self._key)
        if rows.num_rows:
            self._merge(rows, properties)
            self._table.update_incremental()
        if self._committed_number() == self._state.number:  # no row has changed, so delta-rs wrote nothing
            super()._add((), properties)

    def _staged(self, parts: Sequence[dict[str, Any]]) -> pa.Table:
        paths = [self.output / file["staged"] for part in parts for file in part["files"]]
        if not paths:
            return self._schema.empty_table()
        first = paths[0]
        if isinstance(first, ObjectPath):
            names = [path.key for path in paths if isinstance(path, ObjectPath)]
            return ds.dataset(names, format="parquet", filesystem=first.file_system, partitioning=None).to_table()
        return ds.dataset([str(path) for path in paths], format="parquet", partitioning=None).to_table()

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
