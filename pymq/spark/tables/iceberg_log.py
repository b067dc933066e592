"""The log of an export into an Iceberg table, kept by pyiceberg in any of its catalogs.

A commit adds files that tasks have written to their places, and changes the property that holds the state of the queues
(:mod:`pymq.spark.tables.table_state`) in the same step. It holds only if the table is still the one that was looked at:
pyiceberg's own retries are off, and after a change by others the state is read again. With another state another export
has written. There is no lock, and nothing to mend after a kill.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError, ValidationException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, Transform

from pymq.errors import PymqError, UsageError
from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.places.object_paths import ObjectPath
from pymq.spark.places.places import Place, place_of, sync_below, sync_directory
from pymq.spark.planning.ranges import QueueKey, ResumeError
from pymq.spark.tables.iceberg_files import merge_small_files, remove_old_files
from pymq.spark.tables.iceberg_name import CATALOG_FILE
from pymq.spark.tables.results_folder import ResultsFolder
from pymq.spark.tables.table_log import TableLog, busy
from pymq.spark.tables.table_settings import check_later_settings, foreign_table
from pymq.spark.tables.table_state import TableState, read_state

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from pymq.spark.planning.identity import Mark
    from pymq.spark.tables.iceberg_name import IcebergName

STATE: Final = "pymq.state"
SETTINGS: Final = "pymq.settings"
COMMIT: Final = "pymq.commit"
QUEUES: Final = "pymq.queues"
# Others may compact the table or delete from it between two looks.
TRIES: Final = 8
# Iceberg's own default for snapshots that a clean-up keeps.
SNAPSHOT_AGE: Final = timedelta(days=5)
_RETRIES: Final = "commit.retry.num-retries"
_PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
_LEVELS: Final[dict[str, tuple[str, Transform[Any, Any]]]] = {
    "topic": ("topic", IdentityTransform()),
    "dt": ("storeTimestamp", DayTransform()),
    "hour": ("storeTimestamp", HourTransform()),
}


class IcebergLog(TableLog):
    """One Iceberg table that an export writes. Raises UsageError for a table of another program."""

    def __init__(self, name: IcebergName, settings: dict[str, Any], schema: pa.Schema) -> None:
        """Open or create the table; columns of ``schema`` that it lacks are added.

        Raises ResumeError with the differences if an earlier export had other settings.
        """
        self.name = name
        self.settings = settings
        levels = tuple(settings["partition_by"])
        columns = columns_of(settings["columns"], levels)
        self._schema = pa.schema([schema.field(name) for name in columns])
        with _clear_errors(str(name)):
            self._catalog = open_catalog(name)
            self._table = self._opened(levels)
            self._kept = _kept_state(self._table)
        self._state = _state_of(self._kept)
        self.output: Place = place_of(_path_of(self._table.location()))
        files = self.output / "data"
        self.layout = Layout(str(files), columns, levels, in_place=True, keeps_levels=True)
        self._results = ResultsFolder(files / "_pymq" / "staging")

    def commit(self, parts: Sequence[dict[str, Any]], marks: Sequence[Mark] = ()) -> int:
        """Add the files of these ranges to the table, with the ends of the ranges. Return the commit's number.

        Raises OutputBusyError when another export has committed since this one began.
        """
        after = self._state.after(parts, marks)
        kept = after.text()
        root = f"{self._table.location().rstrip('/')}/data"
        paths = [f"{root}/{file['path']}" for part in parts for file in part["files"]]
        summary = {COMMIT: str(after.number), QUEUES: after.text(self._state)}
        with _clear_errors(str(self.name)):
            for left in reversed(range(TRIES)):
                try:
                    self._change(kept, paths, summary)
                    break
                except CommitFailedException:
                    self._table.refresh()
                    if _kept_state(self._table) != self._kept:
                        raise busy(self.name) from None
                    if not left:
                        raise
            self._sync()
        self._state, self._kept = after, kept
        return after.number

    def _change(self, state: str, paths: list[str], summary: dict[str, str]) -> None:
        if paths:
            with _once(self._table).transaction() as change:
                change.set_properties({STATE: state})
                change.add_files(paths, snapshot_properties=summary, check_duplicate_files=False)
            return
        found = self._table.current_snapshot()
        as_seen = AssertRefSnapshotId(
            ref=MAIN_BRANCH,
            snapshot_id=None if found is None else found.snapshot_id,  # type: ignore[call-arg]  # its alias works, too
        )
        self._catalog.commit_table(self._table, (as_seen,), (SetPropertiesUpdate(updates={STATE: state}),))
        self._table.refresh()

    def _sync(self) -> None:
        """Wait for the disk: pyiceberg doesn't. Its commit has written files of metadata."""
        if isinstance(self.output, ObjectPath):
            return
        snapshot = self._table.current_snapshot()
        found = [self._table.metadata_location]
        if snapshot is not None:
            found.append(snapshot.manifest_list)
            for manifest in snapshot.manifests(self._table.io):
                if manifest.added_snapshot_id == snapshot.snapshot_id:
                    found.append(manifest.manifest_path)
        for path in found:
            sync_directory(Path(_path_of(path)))
        sync_below(self.output, ["metadata/x"])

    def tidy(self, *, compact: bool, keep_days: float) -> None:
        """Merge small files, take out old days, forget old snapshots, and remove files that no snapshot has."""
        if compact:
            self._compact()
        if keep_days:
            self._expire(keep_days)
        self._vacuum()

    def _compact(self) -> None:
        """Merge small files of each partition by an overwrite; older snapshots keep the old ones."""
        with _clear_errors(str(self.name)):
            merge_small_files(self._table)
            self._table.refresh()

    def _expire(self, keep_days: float) -> None:
        """Take the days that ended longer ago out of the table."""
        first = datetime.combine((datetime.now(UTC) - timedelta(days=keep_days)).date(), time(), UTC)
        with _clear_errors(str(self.name)):
            self._table.delete(f"storeTimestamp < '{first.isoformat()}'")

    def _vacuum(self) -> None:
        """Forget old snapshots, and remove the files that no snapshot of the last week has."""
        with _clear_errors(str(self.name)):
            self._table.maintenance.expire_snapshots().older_than(datetime.now(UTC) - SNAPSHOT_AGE).commit()
            self._table.refresh()
            remove_old_files(self._table)

    def close(self) -> None:
        """Remove what tasks have reported, and let go of the catalog."""
        super().close()
        self._catalog.close()

    def _opened(self, levels: Sequence[str]) -> Table:
        try:
            table = self._catalog.load_table(self.name.table)
        except NoSuchTableError:
            return self._created(levels)
        before = _settings_of(table)
        if before is None:
            raise foreign_table(str(self.name))
        check_later_settings(str(self.name), before, self.settings)
        if before != self.settings:
            self._add_columns(table)
        return table

    def _created(self, levels: Sequence[str]) -> Table:
        self._catalog.create_namespace_if_not_exists(self.name.table.rpartition(".")[0])
        with self._catalog.create_table_transaction(self.name.table, self._schema, self.name.location) as change:
            with change.update_spec() as spec:
                for level in levels:
                    column, transform = _LEVELS[level]
                    spec.add_field(column, transform, None if level == "topic" else level)
            change.set_properties({**_PROPERTIES, SETTINGS: json.dumps(self.settings)})
        return self._catalog.load_table(self.name.table)

    def _add_columns(self, table: Table) -> None:
        try:
            with table.transaction() as change:
                with change.update_schema() as schema:
                    schema.union_by_name(self._schema)
                change.set_properties({SETTINGS: json.dumps(self.settings)})
        except (ValidationError, ValidationException) as error:
            raise ResumeError(f"{self.name} can't take these columns ({error}): use a new table") from error
        table.refresh()


def columns_of(columns: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table's files: those that partitions are made of belong to them."""
    needed = [_LEVELS[level][0] for level in levels]
    return tuple(dict.fromkeys((*columns, *needed)))


def open_catalog(name: IcebergName) -> Catalog:
    """Return the catalog of a table. pyiceberg warns of each column that a file has no bounds of: bodies have none."""
    logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
    if name.folder is not None:
        name.folder.mkdir(parents=True, exist_ok=True)
    return load_catalog(name.catalog, **name.properties)


def earlier_settings(name: IcebergName) -> dict[str, Any]:
    """Return the settings of the export that has made a table; none where there is no table."""
    with _existing(name) as table:
        return {} if table is None else _settings_of(table) or {}


def positions(name: IcebergName) -> dict[QueueKey, int]:
    """Return the committed end offset of each queue of an export's table. Raises UsageError for another one."""
    with _existing(name) as table:
        if table is None or not _settings_of(table):
            raise UsageError(f"{name} is no table of an export: name the one of pymq spark-export")
        return _state_of(_kept_state(table)).positions


@contextmanager
def _existing(name: IcebergName) -> Iterator[Table | None]:
    """Yield the table, or None where there is none, with its catalog open."""
    if name.folder is not None and not (name.folder / CATALOG_FILE).exists():
        yield None
        return
    with _clear_errors(str(name)), closing(open_catalog(name)) as catalog:
        try:
            table = catalog.load_table(name.table)
        except NoSuchTableError:
            table = None
        yield table


def _settings_of(table: Table) -> dict[str, Any] | None:
    kept = table.metadata.properties.get(SETTINGS)
    return None if kept is None else json.loads(kept)


def _kept_state(table: Table) -> str | None:
    return table.metadata.properties.get(STATE)


def _state_of(kept: str | None) -> TableState:
    state = TableState() if kept is None else read_state([kept])
    assert state is not None  # the property has all queues
    return state


def _once(table: Table) -> Table:
    """Have a commit fail on a change by others, in place of pyiceberg's retries, which would add the rows again.

    It is set in this process alone: a property that is stored would bind other writers, too.
    """
    table.metadata.properties[_RETRIES] = "0"
    return table


def _path_of(location: str) -> str:
    return location.removeprefix("file://")


@contextmanager
def _clear_errors(name: str) -> Iterator[None]:
    """Raise PymqError for an error of pyiceberg, of its catalog or of a file."""
    try:
        yield
    except PymqError:
        raise
    except NoSuchTableError:
        raise
    except Exception as error:  # catalogs raise what their drivers raise
        if isinstance(error, (TypeError, AssertionError, AttributeError)):
            raise
        raise PymqError(f"the Iceberg table {name}: {error or type(error).__name__}") from error
