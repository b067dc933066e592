"""The table of light queues in a file: their names, newest entries and ends. It spares a start to read all entries."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from pymq.store.disk.fs import Files, put_file
from pymq.store.disk.regular_files import OddFileError

_MAGIC: Final = b"PYMQLQ\x00\x01"
# magic, covered offset, end of entries, lowest next offset; sizes of names, numbers, newest entries, ends and ranks
_HEAD: Final = struct.Struct(">8sqqqqqqqq")
_CRC: Final = struct.Struct(">I")
_AFTER_NAME, _AFTER_PARENT = "\x01", "\x02"  # no printable name has them

Names = Mapping[str, Mapping[str, int]]  # parent -> lite topic -> number of its queue


@dataclass(frozen=True, slots=True)
class LightTable:
    """The light queues at one moment.

    ``covered``: all records below this physical offset have their entries. ``entry_end``: the number of entries then.
    ``floor``: the first offset of a new queue. ``newest``, ``ends`` and ``ranks`` hold, for each queue's number, its
    newest entry, its next offset and the rank of its newest entry.
    """

    covered: int
    entry_end: int
    floor: int
    parents: list[tuple[str, list[str], list[int]]]
    newest: array[int]
    ends: array[int]
    ranks: array[int]

    def names(self) -> dict[str, dict[str, int]]:
        """Return the queues' numbers by parent and lite topic."""
        return {parent: dict(zip(lites, numbers, strict=True)) for parent, lites, numbers in self.parents}


class LightTableFile:
    """Writes the file and reads it. A missing or damaged one counts as none: the entries tell the same."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def save(self, table: LightTable) -> None:
        """Replace the file, and bring it to the disk. Raises OSError."""
        texts = [_AFTER_NAME.join([parent, *lites]) for parent, lites, _ in table.parents]
        names = _AFTER_PARENT.join(texts).encode("utf-8", "surrogatepass")
        numbers = array("q")
        for _, _, some in table.parents:
            numbers.extend(some)
        columns = [_big_endian(each).tobytes() for each in (numbers, table.newest, table.ends, table.ranks)]
        head = _HEAD.pack(
            _MAGIC, table.covered, table.entry_end, table.floor, len(names), *[len(column) for column in columns]
        )
        content = b"".join([head, names, *columns])
        put_file(self._files, self._path, content + _CRC.pack(crc32(content)))
        self._files.sync_dir(self._path.rpartition("/")[0])

    def load(self) -> LightTable | None:
        """Return what was saved last; None when there is nothing usable. Raises OSError."""
        try:
            raw = self._files.read_bytes(self._path)
        except (FileNotFoundError, OddFileError):
            return None
        if len(raw) < _HEAD.size + _CRC.size or _CRC.unpack_from(raw, len(raw) - _CRC.size)[0] != crc32(raw[:-4]):
            return None
        magic, covered, entry_end, floor, *sizes = _HEAD.unpack_from(raw)
        if magic != _MAGIC or _HEAD.size + sum(sizes) + _CRC.size != len(raw):
            return None
        parts, at = [], _HEAD.size
        for size in sizes:
            parts.append(raw[at : at + size])
            at += size
        numbers, newest, ends, ranks = (_from_big_endian(part) for part in parts[1:])
        parents, first = [], 0
        for text in parts[0].decode("utf-8", "surrogatepass").split(_AFTER_PARENT) if parts[0] else []:
            parent, *lites = text.split(_AFTER_NAME)
            parents.append((parent, lites, numbers[first : first + len(lites)].tolist()))
            first += len(lites)
        return LightTable(covered, entry_end, floor, parents, newest, ends, ranks)

    def remove(self) -> None:
        """Remove the file: the next start reads all entries. Raises OSError."""
        if self._files.exists(self._path):
            self._files.remove(self._path)
            self._files.sync_dir(self._path.rpartition("/")[0])


def _big_endian(values: array[int]) -> array[int]:
    swapped = values[:]
    if sys.byteorder == "little":
        swapped.byteswap()
    return swapped


def _from_big_endian(raw: bytes) -> array[int]:
    values = array("q")
    values.frombytes(raw)
    if sys.byteorder == "little":
        values.byteswap()
    return values
