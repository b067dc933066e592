"""The output directory's commit log: what makes an export exactly once for every reader of the folder.

``_pymq/commits/N.json`` names the offsets and files of commit N. Files are staged first, then the commit is written by
a rename, then the files are moved to their places. A crash before the commit leaves only staged files, which the next
run removes; after it, the next run moves the rest. So a visible file is always a committed one, and never changes.
Readers skip ``_pymq`` because of its underscore, and staged files don't end in ``.parquet``.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from pymq.errors import PymqError, UsageError
from pymq.spark.parquet_parts import sync_directory
from pymq.spark.planner import QueueKey, ResumeError

VERSION = 1
FOLDER = "_pymq"


class OutputBusyError(PymqError):
    """Another export writes to the directory."""


class CommitLog:
    """One export directory, locked while open. Raises UsageError for a directory that holds something else."""

    def __init__(self, output: Path, settings: dict[str, Any]) -> None:
        """``settings`` must be the same for all exports into one directory, else ResumeError says what differs."""
        self.output = output
        self._folder = output / FOLDER
        self._commits = self._folder / "commits"
        self._staging_root = self._folder / "staging"
        self._refuse_foreign()
        self._commits.mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()
        try:
            self._numbers = sorted(int(path.stem) for path in self._commits.glob("*.json"))
            self._check_settings(settings)
            self._positions: dict[QueueKey, int] = {}
            for number in self._numbers:
                self._note_positions(self.read(number))
            if self._numbers:
                self._publish(self.read(self._numbers[-1]))
            self._clear_staging()
        except BaseException:
            self._lock.close()
            raise

    @property
    def resumed(self) -> bool:
        """True when something was committed by an earlier run or this one."""
        return bool(self._numbers)

    @property
    def positions(self) -> dict[QueueKey, int]:
        """Up to which offset each queue is committed."""
        return dict(self._positions)

    def read(self, number: int) -> dict[str, Any]:
        """Commit ``number`` as it was written."""
        result: dict[str, Any] = json.loads((self._commits / f"{number}.json").read_text())
        return result

    def new_staging(self, name: str) -> Path:
        """A new directory for a round's files. Its name must be new: no late task of an older run writes there."""
        path = self._staging_root / name
        path.mkdir(parents=True)
        return path

    def commit(self, ranges: Sequence[dict[str, Any]], files: Sequence[dict[str, Any]]) -> int:
        """Commits ranges (topic, broker_name, queue_id, from_offset, to_offset, rows, lost) and their staged files."""
        number = self._numbers[-1] + 1 if self._numbers else 0
        entry = {"version": VERSION, "number": number, "ranges": list(ranges), "files": list(files)}
        _write_durably(self._commits / f"{number}.json", entry)
        self._numbers.append(number)
        self._note_positions(entry)
        self._publish(entry)
        return number

    def close(self) -> None:
        """Removes what is left of staging and lets others in."""
        self._clear_staging()
        self._lock.close()

    def __enter__(self) -> CommitLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _publish(self, entry: dict[str, Any]) -> None:
        """Moves a commit's files to their places; those that are there already stay."""
        touched: set[Path] = set()
        for file in entry["files"]:
            staged, final = self.output / file["staged"], self.output / file["path"]
            if not staged.exists():
                continue
            if not final.parent.is_dir():
                final.parent.mkdir(parents=True)
                touched.update({final.parent.parent, self.output})
            staged.replace(final)
            touched.add(final.parent)
        for folder in touched:
            sync_directory(folder)

    def _note_positions(self, entry: dict[str, Any]) -> None:
        for part in entry["ranges"]:
            key = part["topic"], part["broker_name"], part["queue_id"]
            self._positions[key] = max(self._positions.get(key, 0), part["to_offset"])

    def _refuse_foreign(self) -> None:
        if self.output.exists() and not self.output.is_dir():
            raise UsageError(f"{self.output} is a file: name a directory")
        if self.output.is_dir() and not self._folder.is_dir() and any(self.output.iterdir()):
            raise UsageError(f"{self.output} is not empty and holds no earlier export: name a new directory")

    def _take_lock(self) -> IO[str]:
        stream = (self._folder / "lock").open("w")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            stream.close()
            text = f"another export writes to {self.output}: wait for it, or use another directory"
            raise OutputBusyError(text) from error
        return stream

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self._folder / "export.json"
        wanted = {"version": VERSION, **settings}
        if not self._numbers or not path.exists():
            # A run that failed before its first commit binds nobody.
            _write_durably(path, wanted)
            return
        before = json.loads(path.read_text())
        changed = [
            f"{name} was {before.get(name)!r}, is {wanted.get(name)!r}"
            for name in sorted({*before, *wanted})
            if before.get(name) != wanted.get(name)
        ]
        if changed:
            raise ResumeError(
                f"{self.output} holds an export of another kind ({'; '.join(changed)}): use a new directory"
            )

    def _clear_staging(self) -> None:
        shutil.rmtree(self._staging_root, ignore_errors=True)


def _write_durably(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w") as stream:
        json.dump(value, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    sync_directory(path.parent)
