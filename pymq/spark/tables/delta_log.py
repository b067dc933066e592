"""The log of an export into a Delta table, kept by delta-rs.

A commit adds files that tasks have written to their places, and carries the state of the queues
(:mod:`pymq.spark.tables.table_state`). Its application transaction has the state's number: of two exports that begin at
one state Delta refuses the second, on file systems and in object stores. So there is no lock, and nothing to mend after
a kill: files that no commit names are none of the table's, and ``vacuum`` removes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from pymq.errors import PymqError, UsageError
from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.places.object_paths import ObjectPath
from pymq.spark.places.places import Place, sync_below, sync_directory
from pymq.spark.planning.ranges import QueueKey, ResumeError
from pymq.spark.tables.results_folder import ResultsFolder
from pymq.spark.tables.table_log import TableLog, busy
from pymq.spark.tables.table_settings import check_later_settings, foreign_table
from pymq.spark.tables.table_state import FULL_EVERY, TableState, read_state

if TYPE_CHECKING:
    from pymq.spark.planning.identity import Mark

APPLICATION: Final = "pymq"
SETTINGS: Final = "pymq.settings"
# Commits of others between two of an export's, such as compactions, that are looked through at once.
HISTORY_STEP: Final = 8 * FULL_EVERY
# A log's clean-up after 30 days must find a commit that names all queues behind it.
FULL_EVERY_S: Final = 86400.0
TARGET_BYTES: Final = 128 << 20
_LEVEL_TYPES: Final = {"topic": pa.string(), "dt": pa.date32(), "hour": pa.int32()}


class DeltaLog(TableLog):
    """One Delta table that an export writes. Raises UsageError for another table, or a directory of something else."""

    def __init__(self, output: Place, settings: dict[str, Any], schema: pa.Schema) -> None:
        """Open or create the table; columns of ``schema`` that it lacks are added.

        Raises ResumeError with the differences if an earlier export had other settings.
        """
        self.output = output
        self.settings = settings
        self._levels = list(settings["partition_by"])
        self.layout = Layout(str(output), tuple(settings["columns"]), tuple(self._levels), in_place=True)
        self._schema = _with_levels(
            pa.schema([schema.field(name) for name in self.layout.written_columns]), self._levels
        )
        self._results = ResultsFolder(output / "_pymq" / "staging")
        with _clear_errors(output):
            self._table = self._opened()
            self._state = _state_of(self._table, output)
        self._full_s: float | None = None

    def commit(self, parts: Sequence[dict[str, Any]], marks: Sequence[Mark] = ()) -> int:
        """Add the files of these ranges to the table, with the ends of the ranges. Return the commit's number.

        Raises OutputBusyError when another export has committed since this one began.
        """
        after = self._state.after(parts, marks)
        is_full = self._full_s is None or time.monotonic() - self._full_s >= FULL_EVERY_S
        text = after.text(None if is_full or after.number % FULL_EVERY == 0 else self._state)
        properties = CommitProperties(
            custom_metadata={APPLICATION: text}, app_transactions=[Transaction(APPLICATION, after.number)]
        )
        with _clear_errors(self.output):
            self._refuse_other_commits()
            self._add(parts, properties)
            self._sync()
        if is_full:
            self._full_s = time.monotonic()
        self._state = after
        return after.number

    def _add(self, parts: Sequence[dict[str, Any]], properties: CommitProperties) -> None:
        """Make the rows of these parts the table's by one commit with these properties."""
        actions: list[AddAction | RemoveAction] = [self._action(part, file) for part in parts for file in part["files"]]
        self._table.create_write_transaction(
            actions, "append", self._schema, self._levels, commit_properties=properties
        )

    def _sync(self) -> None:
        """Wait for the disk: delta-rs doesn't."""
        if isinstance(self.output, Path):
            self._table.update_incremental()
            log = f"_delta_log/{self._table.version():020}.json"
            sync_directory(self.output / log)
            sync_below(self.output, [log])

    def tidy(self, *, compact: bool, keep_days: float) -> None:
        """Merge small files, take out old days, and then remove the files that no state of the last week has."""
        with _clear_errors(self.output):
            self._table.update_incremental()
        if compact:
            self._compact()
        if keep_days:
            self._expire(keep_days)
        if compact or keep_days:
            self._vacuum()

    def _compact(self) -> None:
        """Merge small files by delta-rs; the table keeps the old ones until a vacuum."""
        with _clear_errors(self.output), suppress(CommitFailedError):  # another program changes the same files
            self._table.optimize.compact(target_size=TARGET_BYTES)

    def _expire(self, keep_days: float) -> None:
        """Take the days that ended longer ago out of the table."""
        first = (datetime.now(UTC) - timedelta(days=keep_days)).date()
        with _clear_errors(self.output), suppress(CommitFailedError):  # another program changes the same files
            self._table.delete(f"dt < '{first}'")

    def _vacuum(self) -> None:
        """Remove the files that no state of the last week has, by delta-rs."""
        with _clear_errors(self.output):
            self._table.vacuum(dry_run=False, full=True)

    def _opened(self) -> DeltaTable:
        table = _existing(self.output)
        if table is None:
            self._refuse_other_files()
            return DeltaTable.create(
                str(self.output),
                self._schema,
                partition_by=self._levels,
                configuration={SETTINGS: json.dumps(self.settings)},
                storage_options=_storage_options(self.output),
                raise_if_key_not_exists=False,
            )
        before = _settings_of(table)
        if before is None:
            raise foreign_table(self.output)
        check_later_settings(self.output, before, self.settings)
        if before != self.settings:
            self._add_columns(table)
        return table

    def _add_columns(self, table: DeltaTable) -> None:
        before, now = (json.loads(schema.to_json()) for schema in (table.schema(), Schema.from_arrow(self._schema)))
        if (name := _changed_type(before, now)) is not None:
            raise ResumeError(f"{self.output} can't take these columns ({name} has another type): use a new table")
        write_deltalake(table, self._schema.empty_table(), mode="append", schema_mode="merge")
        table.alter.set_table_properties({SETTINGS: json.dumps(self.settings)}, raise_if_not_exists=False)
        table.update_incremental()

    def _refuse_other_commits(self) -> None:
        """Look at what has happened since the last commit. Delta refuses what happens after this look."""
        self._table.update_incremental()
        if self._committed_number() != self._state.number:
            raise busy(self.output)

    def _committed_number(self) -> int:
        return self._table.transaction_version(APPLICATION) or 0

    def _refuse_other_files(self) -> None:
        if self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
            raise UsageError(f"{self.output} holds other files and no Delta table: name a new directory")

    def _action(self, part: dict[str, Any], file: dict[str, Any]) -> AddAction:
        return AddAction(
            path=file["path"],
            size=file["bytes"],
            partition_values=self._level_values(part["topic"], file["min_time_us"]),
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=json.dumps(self._statistics(part, file)),
        )

    def _level_values(self, topic: str, time_us: int | None) -> dict[str, str | None]:
        at = None if time_us is None else _time(time_us)
        values = {
            "topic": topic,
            "dt": None if at is None else str(at.date()),
            "hour": None if at is None else str(at.hour),
        }
        return {name: values[name] for name in self._levels}

    def _statistics(self, part: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
        """Return what lets readers skip the file: Delta's times have milliseconds, so the last one is rounded up."""
        low = {
            "brokerName": part["broker_name"],
            "queueId": part["queue_id"],
            "queueOffset": file["from_offset"],
        }
        high = {**low, "queueOffset": file["to_offset"] - 1}
        if file["min_time_us"] is not None:
            low["storeTimestamp"] = _stamp(file["min_time_us"] // 1000)
            high["storeTimestamp"] = _stamp(-(-file["max_time_us"] // 1000))
        known = [name for name in low if name in self.layout.written_columns]
        return {
            "numRecords": file["rows"],
            "minValues": {name: low[name] for name in known},
            "maxValues": {name: high[name] for name in known},
            "nullCount": {name: 0 for name in known if name != "storeTimestamp"},
        }


def earlier_settings(output: Place) -> dict[str, Any]:
    """Return the settings of the export that has made a table; none where there is no table."""
    with _clear_errors(output):
        table = _existing(output)
        return {} if table is None else _settings_of(table) or {}


def positions(output: Place) -> dict[QueueKey, int]:
    """Return the committed end offset of each queue of an export's table. Raises UsageError for another place."""
    with _clear_errors(output):
        table = _existing(output)
        if table is None:
            raise UsageError(f"{output} holds no Delta table: name the --output of pymq spark-export")
        return _state_of(table, output).positions


def _existing(output: Place) -> DeltaTable | None:
    place, options = str(output), _storage_options(output)
    return DeltaTable(place, storage_options=options) if DeltaTable.is_deltatable(place, options) else None


def _state_of(table: DeltaTable, output: Place) -> TableState:
    number = table.transaction_version(APPLICATION)
    if number is None:
        return TableState()
    limit = HISTORY_STEP
    while True:
        history = table.history(limit)
        state = read_state(entry[APPLICATION] for entry in history if APPLICATION in entry)
        if state is not None and state.number == number:
            return state
        if len(history) < limit:
            raise ResumeError(
                f"{output} has lost the commits that say how far commit {number} is, by a clean-up of its log: "
                "export to a new directory"
            )
        limit *= 4


def _settings_of(table: DeltaTable) -> dict[str, Any] | None:
    kept = table.metadata().configuration.get(SETTINGS)
    return None if kept is None else json.loads(kept)


def _changed_type(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Return the name of a field that both structs have, in Delta's JSON, and whose types differ; None without one.

    delta-rs would take it and write what the table's type can't read.
    """
    known = {field["name"]: field["type"] for field in now["fields"]}
    for field in before["fields"]:
        name, kind = field["name"], field["type"]
        other = known.get(name, kind)
        if isinstance(kind, dict) and isinstance(other, dict) and kind["type"] == other["type"] == "struct":
            if (inside := _changed_type(kind, other)) is not None:
                return f"{name}.{inside}"
        elif kind != other:
            return str(name)
    return None


def _with_levels(schema: pa.Schema, levels: Sequence[str]) -> pa.Schema:
    for name in levels:
        schema = schema.append(pa.field(name, _LEVEL_TYPES[name]))
    return schema


def _storage_options(output: Place) -> dict[str, str]:
    """Return what delta-rs does not take from the environment: that an endpoint may be without TLS."""
    return {"aws_allow_http": "true"} if isinstance(output, ObjectPath) else {}


@contextmanager
def _clear_errors(output: Place) -> Iterator[None]:
    """Raise PymqError for an error of delta-rs."""
    try:
        yield
    except CommitFailedError as error:
        raise busy(output) from error
    except (DeltaError, OSError) as error:
        raise PymqError(f"the Delta table {output}: {error}") from error


def _time(time_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def _stamp(time_ms: int) -> str:
    return _time(time_ms * 1000).isoformat(timespec="milliseconds").replace("+00:00", "Z")
