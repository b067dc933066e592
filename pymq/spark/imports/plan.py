"""What an import reads, in steps: files in order, and the log of the steps that are done.

A step is a job of Spark whose rows are sent in order for each key, before the next step begins. Its receipt is written
by a rename once brokers have stored all its rows, so a run that ends earlier repeats at most one step, with the same
message ids.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pymq.errors import NotFoundError, UsageError
from pymq.file_lock import try_lock_file
from pymq.spark.places.places import OutputBusyError, write_durably
from pymq.spark.planning.ranges import ResumeError

ROWS_PER_STEP = 1_000_000
BYTES_PER_STEP = 256 * 1024 * 1024  # of formats that don't say their rows
VERSION = 1
_PLAN, _STEPS, _LOCK = "plan.json", "steps", "lock"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file; ``rows`` is None if its format doesn't say."""

    path: str
    size_bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class FilePart:
    """Rows [from_row, to_row) of a file, all of them without ``to_row``."""

    path: str
    from_row: int = 0
    to_row: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What one job sends; ``rows`` is None if the format doesn't say."""

    number: int
    parts: tuple[FilePart, ...]
    rows: int | None
    size_bytes: int


def find_files(inputs: Sequence[str], file_format: str) -> list[InputFile]:
    """Return the files of paths and directories, in the order in which they are imported: that of their names.

    Names that begin with ``_`` or ``.`` are left out, as Spark does. Raises NotFoundError, UsageError.
    """
    found: dict[str, Path] = {}
    for text in inputs:
        path = Path(text).absolute()
        if not path.exists():
            raise NotFoundError(f"there is no file or directory {text}")
        for file in path.rglob("*") if path.is_dir() else [path]:
            inside = file.relative_to(path).parts if path.is_dir() else ()
            if file.is_file() and not any(part.startswith(("_", ".")) for part in inside):
                found[str(file)] = file
    if not found:
        raise UsageError(f"{', '.join(inputs)} holds no files: name files, or a directory that has some")
    return [_input_file(found[name], file_format) for name in sorted(found)]


def _input_file(path: Path, file_format: str) -> InputFile:
    rows = None
    if file_format == "parquet":
        try:
            rows = pq.read_metadata(path).num_rows
        except (pa.ArrowInvalid, OSError) as error:
            raise UsageError(f"{path} can't be read as Parquet: {error}; name its --format") from error
    return InputFile(str(path), path.stat().st_size, rows)


def steps_of(
    files: Iterable[InputFile], *, rows_max: int = ROWS_PER_STEP, size_max_bytes: int = BYTES_PER_STEP
) -> list[Step]:
    """Return steps of about ``rows_max`` rows, or ``size_max_bytes`` bytes, in the order of the files.

    A file with more rows is split; one that doesn't say its rows is not.
    """
    steps: list[Step] = []
    parts: list[FilePart] = []
    rows = size = 0

    def close() -> None:
        nonlocal rows, size
        if parts:
            steps.append(Step(len(steps), tuple(parts), rows or None, size))
        parts.clear()
        rows = size = 0

    for file in files:
        if file.rows is None:
            if size + file.size_bytes > size_max_bytes:
                close()
            parts.append(FilePart(file.path))
            size += file.size_bytes
            continue
        first = 0
        while first < file.rows:
            last = min(file.rows, first + rows_max - rows)
            parts.append(FilePart(file.path) if last - first == file.rows else FilePart(file.path, first, last))
            rows += last - first
            size += file.size_bytes * (last - first) // file.rows
            first = last
            if rows >= rows_max:
                close()
    close()
    return steps


class ImportLog:
    """The directory of one import, locked while open: its plan, and the receipts of the steps that are done."""

    def __init__(self, directory: Path, settings: dict[str, Any], plan: dict[str, Any]) -> None:
        """Take the plan of an earlier run, or write this one.

        Raises ResumeError if that run had other settings or files, OutputBusyError while another import runs.
        """
        self.directory = directory
        self._steps = directory / _STEPS
        if directory.exists() and not (directory / _PLAN).exists() and any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty and holds no earlier import: name a new directory")
        self._steps.mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()
        try:
            self.resumed = (directory / _PLAN).exists()
            if not self.resumed:
                entry = {"version": VERSION, "id": secrets.token_hex(16), "settings": settings, **plan}
                write_durably(directory / _PLAN, entry)
            self.plan: dict[str, Any] = json.loads((directory / _PLAN).read_text())
            self._check(settings, plan)
        except BaseException:
            self._lock.close()
            raise

    @property
    def import_id(self) -> str:
        """What the message ids of this import begin with."""
        identity: str = self.plan["id"]
        return identity

    def receipt_path(self, number: int) -> Path:
        """Return where the receipt of a step is, once it is done."""
        return self._steps / f"{number}.json"

    def is_done(self, step: Step) -> bool:
        """Return whether all rows of a step are stored, or in a file of dead letters."""
        path = self.receipt_path(step.number)
        if not path.exists():
            return False
        receipt = json.loads(path.read_text())
        return step.rows in (None, sum(receipt["rows"].values()) + receipt["dead_letters"])

    def receipts(self) -> list[dict[str, Any]]:
        """Return the receipts of all steps that are done."""
        return [json.loads(path.read_text()) for path in self._steps.glob("*.json")]

    def close(self) -> None:
        """Let another run have the directory."""
        self._lock.close()

    def __enter__(self) -> ImportLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_lock(self) -> IO[str]:
        stream = (self.directory / _LOCK).open("w")
        if not try_lock_file(stream.fileno()):
            stream.close()
            raise OutputBusyError(f"another import uses {self.directory}: wait for it, or name another --state")
        return stream

    def _check(self, settings: dict[str, Any], plan: dict[str, Any]) -> None:
        before = self.plan["settings"]
        changed = [
            f"{name} was {before.get(name)!r}, is {settings.get(name)!r}"
            for name in sorted({*before, *settings})
            if before.get(name) != settings.get(name)
        ]
        if self.plan["files"] != plan["files"]:
            known = {file["path"]: file for file in self.plan["files"]}
            now = {file["path"]: file for file in plan["files"]}
            first = min(path for path in {*known, *now} if known.get(path) != now.get(path))
            changed.append(f"the file {first} is another, new or gone")
        if changed:
            raise ResumeError(
                f"{self.directory} holds an import that differs ({'; '.join(changed)}): name another --state"
            )


def plan_of(files: Sequence[InputFile], tasks: int, ends: dict[str, int]) -> dict[str, Any]:
    """Return the fields of a plan: files, tasks of a step, and the messages that each topic has had before."""
    return {"files": [asdict(file) for file in files], "tasks": tasks, "ends": ends}
