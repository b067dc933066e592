"""The files of an export's commits: one for each of the last, and one for all that are older.

``_pymq/commits/N.json`` is a commit. When there are many, all but the last are folded into ``folded.json``, which has
the form of one commit: its number is that of the last one in it. It is written with a rename before the others are
removed, and a commit whose number it covers is not read again. So a crash at any point changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pymq.spark.places.places import write_durably

VERSION = 1
FOLDED = "folded.json"
# So many commits stay single, or a tenth of the number of files in the fold: each file is written again few times.
COMMITS_MAX = 100
FILES_PER_COMMIT = 10

Entry = dict[str, Any]
_COUNTS = ("rows", "lost", "filter_errors")


class CommitFiles:
    """The commits in ``folder``, of an export in the directory ``output``."""

    def __init__(self, folder: Path, output: Path, *, commits_max: int = COMMITS_MAX) -> None:
        """Remove commits that were folded before a crash."""
        self._folder = folder
        self._output = output
        self._commits_max = commits_max
        folded = self._read_folded()
        self._folded_number: int = folded["number"] if folded else -1
        self._folded_files = len(folded["files"]) if folded else 0
        numbers = sorted(int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit())
        self._numbers = [number for number in numbers if number > self._folded_number]
        self._remove(numbers[: len(numbers) - len(self._numbers)])

    @property
    def next_number(self) -> int:
        """The number of the next commit."""
        return (self._numbers[-1] if self._numbers else self._folded_number) + 1

    @property
    def last(self) -> Entry | None:
        """The last commit, which is never folded; None before the first."""
        return self._read(self._numbers[-1]) if self._numbers else None

    def entries(self) -> Iterator[Entry]:
        """Yield what is folded as one commit, then each other commit."""
        folded = self._read_folded()
        if folded is not None:
            yield folded
        for number in self._numbers:
            yield self._read(number)

    def add(self, entry: Entry) -> None:
        """Write the commit ``next_number``."""
        write_durably(self._folder / f"{entry['number']}.json", entry)
        self._numbers.append(entry["number"])

    def fold(self) -> None:
        """Fold all commits but the last if there are many. Their files must have been moved to their places."""
        if len(self._numbers) <= max(self._commits_max, self._folded_files // FILES_PER_COMMIT):
            return
        *old, last = self._numbers
        folded = _as_one(
            (entry for entry in self.entries() if entry["number"] != last), lambda name: (self._output / name).exists()
        )
        write_durably(self._folder / FOLDED, folded, indent=None)
        self._folded_number, self._folded_files = folded["number"], len(folded["files"])
        self._numbers = [last]
        self._remove(old)

    def _read(self, number: int) -> Entry:
        entry: Entry = json.loads((self._folder / f"{number}.json").read_text())
        return entry

    def _read_folded(self) -> Entry | None:
        path = self._folder / FOLDED
        return json.loads(path.read_text()) if path.exists() else None

    def _remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            (self._folder / f"{number}.json").unlink()


def _as_one(entries: Iterable[Entry], is_there: Callable[[str], bool]) -> Entry:
    """Return commits as one: joined ranges, the last mark of each queue, and the files that are still there."""
    number = -1
    ranges: dict[tuple[str, str, int], list[Entry]] = {}
    marks: dict[tuple[str, str, int], Entry] = {}
    files: dict[str, Entry] = {}
    for entry in entries:
        number = entry["number"]
        for part in entry["ranges"]:
            ranges.setdefault(_queue(part), []).append(part)
        marks.update((_queue(mark), mark) for mark in entry.get("marks", ()))
        files.update((file["path"], file) for file in _files_of(entry))
    return {
        "version": VERSION,
        "number": number,
        "ranges": [part for parts in ranges.values() for part in _joined(parts)],
        # A user may have removed others.
        "files": [file for path, file in files.items() if is_there(path)],
        "marks": list(marks.values()),
    }


def _queue(fields: Entry) -> tuple[str, str, int]:
    return fields["topic"], fields["broker_name"], fields["queue_id"]


def _files_of(entry: Entry) -> Iterator[Entry]:
    for file in entry["files"]:
        yield {name: value for name, value in file.items() if name != "staged"}


def _joined(parts: list[Entry]) -> list[Entry]:
    """Return the ranges of one queue in order; ranges that touch each other are joined into one."""
    joined: list[Entry] = []
    for part in sorted(parts, key=lambda part: part["from_offset"]):
        before = joined[-1] if joined else None
        if before is None or before["to_offset"] != part["from_offset"]:
            joined.append(part)
            continue
        counts = {name: before.get(name, 0) + part.get(name, 0) for name in _COUNTS if name in part}
        joined[-1] = {**part, "from_offset": before["from_offset"], **counts}
    return joined
