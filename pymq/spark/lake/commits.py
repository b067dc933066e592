"""The commit log of the output directory, which gives all readers of the directory an exactly-once export.

``_pymq/commits/N.json`` lists the offsets and files of commit N. An export stages files, writes the commit with a
rename, and then moves the files to their places. A crash before the commit leaves only staged files, which the next
run removes; after a later crash the next run moves the rest. So a visible file is always committed and never changes.
Readers skip ``_pymq`` because of its underscore, and staged files don't end in ``.parquet``. Old commits are folded
into one file (:mod:`pymq.spark.lake.commit_files`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pymq.errors import UsageError
from pymq.spark.lake.commit_files import COMMITS_MAX, VERSION, CommitFiles
from pymq.spark.lake.parquet_parts import Layout, naming_full_disk
from pymq.spark.places.places import (
    FileLock,
    move_all,
    remove_tree,
    write_durably,
)
from pymq.spark.planning.identity import Mark
from pymq.spark.planning.ranges import QueueKey, ResumeError

FOLDER = "_pymq"
SETTINGS = "export.json"


class ExportDirectory:
    """One export directory, locked while open. Raises UsageError for a directory with other files."""

    def __init__(self, output: Path, settings: dict[str, Any], *, commits_max: int = COMMITS_MAX) -> None:
        """Open the directory. Raises ResumeError with the differences if an earlier export had other ``settings``.

        More than ``commits_max`` commits are folded.
        """
        self.output = output
        self.settings = settings
        self.folder = output / FOLDER
        """The directory of the log and of staged files."""
        self.layout = Layout(str(output), tuple(settings["columns"]), tuple(settings["partition_by"]))
        self._commits = self.folder / "commits"
        self._staging_root = self.folder / "staging"
        self._is_committing = False
        self._refuse_foreign()
        self._commits.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder, str(output))
        try:
            self._files = CommitFiles(self._commits, output, commits_max=commits_max)
            self._check_settings(settings)
            self._positions: dict[QueueKey, int] = {}
            self._marks: dict[QueueKey, Mark] = {}
            for entry in self._files.entries():
                self._note(entry)
            if (last := self._files.last) is not None:
                self._publish(last)
            self._clear_staging()
        except BaseException:
            self._lock.close()
            raise

    @property
    def resumed(self) -> bool:
        """True when this run or an earlier one has committed."""
        return self.next_number > 0

    @property
    def positions(self) -> dict[QueueKey, int]:
        """The committed end offset of each queue."""
        return dict(self._positions)

    @property
    def marks(self) -> dict[QueueKey, Mark]:
        """The latest mark of each queue that has one: the next run recognizes the queue by it."""
        return dict(self._marks)

    def new_staging(self, name: str) -> Path:
        """Create a directory for a round's files. The name must be new: no late task of an older run may use it."""
        path = self._staging_root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def commit(self, parts: Sequence[dict[str, Any]], marks: Sequence[Mark] = ()) -> int:
        """Commit ranges (topic, broker_name, queue_id, from_offset, to_offset, rows, lost), each with its files.

        ``marks`` identify the queues at a later run.
        """
        ranges = [{name: value for name, value in part.items() if name != "files"} for part in parts]
        files = [file for part in parts for file in part["files"]]
        return self._commit({"ranges": ranges, "files": files, "marks": [mark.to_dict() for mark in marks]})

    @property
    def next_number(self) -> int:
        """The number of the next commit."""
        return self._files.next_number

    def tidy(self, *, compact: bool, keep_days: float) -> None:
        """Do nothing: a plain directory keeps its files as they are."""

    def _commit(self, fields: dict[str, Any]) -> int:
        number = self.next_number
        entry = {"version": VERSION, "number": number, **fields}
        self._is_committing = True
        with naming_full_disk(self.output):
            self._files.add(entry)
        self._note(entry)
        self._publish(entry)
        self._is_committing = False
        with naming_full_disk(self.output):
            self._files.fold()
        return number

    def close(self) -> None:
        """Remove the rest of staging, of an export without a commit all it made, and release the lock.

        After an interrupt or an error in the middle of a commit all stays for the next run, which finishes the commit.
        """
        try:
            if not self._is_committing:
                self._clear_staging()
                if not self.resumed:
                    remove_tree(self.folder)
                    with suppress(OSError):  # not empty, or not ours
                        self.output.rmdir()
        finally:
            self._lock.close()

    def __enter__(self) -> ExportDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _publish(self, entry: dict[str, Any]) -> None:
        """Move a commit's files to their places; files that were moved before stay."""
        move_all(self.output, [(file["staged"], file["path"]) for file in entry["files"]])

    def _note(self, entry: dict[str, Any]) -> None:
        for part in entry["ranges"]:
            key = part["topic"], part["broker_name"], part["queue_id"]
            self._positions[key] = max(self._positions.get(key, 0), part["to_offset"])
        for fields in entry.get("marks", ()):  # commits of version 0.1.0 have none
            mark = Mark(**fields)
            self._marks[mark.key] = mark

    def _refuse_foreign(self) -> None:
        if self.output.exists() and not self.output.is_dir():
            raise UsageError(f"{self.output} is a file: name a directory")
        if self.output.is_dir() and not self.folder.is_dir() and any(self.output.iterdir()):
            raise UsageError(f"{self.output} is not empty and holds no earlier export: name a new directory")

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self.folder / SETTINGS
        current = {"version": VERSION, **settings}
        if not self.resumed or not path.exists():
            # The settings of a run that failed before its first commit don't matter.
            write_durably(path, current)
            return
        refuse_other_settings(self.output, json.loads(path.read_text()), current)

    def _clear_staging(self) -> None:
        remove_tree(self._staging_root)


def refuse_other_settings(output: Path | str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise ResumeError with the differences between an earlier export's settings and these."""
    changed = [
        f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise ResumeError(f"{output} holds an export with other settings ({'; '.join(changed)}): use a new directory")


def earlier_settings(output: Path) -> dict[str, Any]:
    """Return the settings of the export that is in a directory; none if it holds no commit."""
    path = output / FOLDER / SETTINGS
    if not path.is_file() or not any((output / FOLDER / "commits").glob("*.json")):
        return {}
    settings: dict[str, Any] = json.loads(path.read_text())
    return settings
