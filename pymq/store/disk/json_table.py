"""JsonTable: a small JSON file (topics, groups, offsets) that is old or new after any crash, never half.

A save writes a temporary file, syncs it, renames it over the old one and syncs the directory. The previous content
stays as ``<name>.bak``, which is read when the file is missing or damaged, as RocketMQ does (Java:
ConfigManager.load). Damaged content, or a faulty manual edit, is kept as ``<name>.bad``. The first member holds a
checksum, so that a flipped bit does not turn into another topic or offset. RocketMQ ignores that member and leaves it
out when it writes the file. A file without it is read unchecked.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol
from zlib import crc32

from pymq.errors import StoreError, StoreUnavailableError
from pymq.model import fastjson
from pymq.store.disk.fs import Files, put_file
from pymq.store.disk.json_text import json_pieces

log = logging.getLogger(__name__)

CHECKSUM = "pymqCrc32"  # CRC-32 of the file's bytes with zeros in this place, eight hexadecimal digits
_NO_CHECKSUM = "0" * 8
_CHECKSUM_AT = re.compile(rb'\A\{\s*"' + CHECKSUM.encode() + rb'":\s*"([^"]{8})"')


class _Damaged(Exception):
    """A file that can't be used. The text says why."""


class SavedNames(Protocol):
    """Knows which tables were saved; see :class:`~pymq.store.disk.saved_tables.SavedTables`."""

    def note(self, name: str) -> None: ...

    def check_missing(self, name: str) -> None: ...


class JsonTable:
    """Reads and writes one file. ``requires`` names a member, an object, that a table must have.

    :meth:`save` may run in another thread than the other methods; one save runs at a time.
    """

    def __init__(
        self,
        files: Files,
        path: str,
        requires: str | None = None,
        *,
        may_go_back: bool = True,
        saved: SavedNames | None = None,
    ) -> None:
        """``may_go_back``: False for a table whose newest change must not be lost, so that no backup is loaded.

        ``saved``: knows whether the table was saved before, so that its loss is an error.
        """
        self._saved = saved
        self._may_go_back = may_go_back
        self._files = files
        self._path = path
        self._backup_path = path + ".bak"
        self._directory, _, self._name = path.rpartition("/")
        self._requires = requires
        self._written: bytes | None = None
        self._rejected: bytes | None = None  # the main file's unusable content; the next save keeps it
        self._lock = Lock()

    def load(self) -> dict[str, Any]:
        """Return the table, empty when there is neither file nor backup. Integer keys become text.

        Falls back to the backup with a warning. Raises StoreError when files exist but none can be used: with an empty
        table every consumer would start over, or topics would vanish. Raises it also when both are gone although the
        table was saved.
        """
        problems: list[str] = []
        for path in (self._path, self._backup_path):
            raw = None
            try:
                raw = self._read(path)
                if raw is None:
                    continue
                if path == self._backup_path and not self._may_go_back:
                    raise StoreError(
                        f"{'; '.join(problems) or f'{self._path} is missing'}: {path} lacks the newest change and is "
                        f"not used; put back a copy of {self._path}, or copy {path} there if what it says may count"
                    )
                table = self._parse(path, raw)
            except _Damaged as damage:
                problems.append(str(damage))
                if path == self._path:
                    self._rejected = raw
                continue
            if self._saved is not None:
                self._saved.note(self._name)
            if path == self._path:
                self._written = raw
            else:
                problems = problems or [f"{self._path} is missing"]
                log.warning("%s; %s is used instead, changes since it was written are lost", problems[0], path)
            return table
        if problems:
            raise StoreError(
                f"{'; '.join(problems)}: put back a copy of {self._path}, or move both {self._path} and "
                f"{self._backup_path} away to start with an empty table"
            )
        if self._saved is not None:
            self._saved.check_missing(self._name)
        return {}

    @property
    def rejected(self) -> bytes | None:
        """The content of a damaged main file whose backup was loaded, None when the file was good."""
        return self._rejected

    def _read(self, path: str) -> bytes | None:
        try:
            return self._files.read_bytes(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _Damaged(f"{path} can't be read: {error.strerror} (errno {error.errno})") from error

    def _parse(self, path: str, raw: bytes) -> dict[str, Any]:
        if not raw.strip(b"\0 \t\r\n"):
            raise _Damaged(f"{path} is empty")
        found = _CHECKSUM_AT.match(raw)
        if found is not None and found[1] != _checksum(raw, found.start(1)):
            raise _Damaged(
                f"{path} does not match its checksum: it is damaged, or was edited (then remove its line {CHECKSUM})"
            )
        try:
            value = fastjson.loads(raw)
        except fastjson.JsonError as error:
            raise _Damaged(f"{path} is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise _Damaged(f"{path} is not a JSON object")
        if not value:
            raise _Damaged(f"{path} holds nothing")
        value.pop(CHECKSUM, None)
        if self._requires is not None and value and not isinstance(value.get(self._requires), dict):
            raise _Damaged(f"{path} has no member {self._requires}")
        return {str(key): item for key, item in value.items()}

    def save(self, table: Mapping[str, Any]) -> None:
        """Replace the file. Unchanged content costs no write. Raises StoreUnavailableError naming the path."""
        with self._lock:
            raw = _encode(table)
            if raw == self._written:
                return
            try:
                if self._rejected is not None:
                    put_file(self._files, self._path + ".bad", self._rejected)
                    self._files.sync_dir(self._directory)
                    self._rejected = None
                # Each rename replaces a complete file, so one sync of the directory at the end is enough.
                if self._written is not None:
                    put_file(self._files, self._backup_path, self._written)
                put_file(self._files, self._path, raw)
                self._files.sync_dir(self._directory)
            except OSError as error:
                raise StoreUnavailableError(
                    f"{self._path} can't be saved: {error.strerror} (errno {error.errno}) on "
                    f"{error.filename or 'the disk'}; the old content stays, make room or mend the disk"
                ) from error
            self._written = raw
        if self._saved is not None:
            self._saved.note(self._name)


def _encode(table: Mapping[str, Any]) -> bytes:
    # Indented for human readers. In pieces, because json.dumps holds the event loop for 0.4 s with 10,000 topics.
    pieces = list(json_pieces({CHECKSUM: _NO_CHECKSUM, **table}))
    at = pieces[0].index(_NO_CHECKSUM.encode())
    checksum = 0
    for piece in pieces:
        checksum = crc32(piece, checksum)
    pieces[0] = pieces[0][:at] + b"%08x" % checksum + pieces[0][at + len(_NO_CHECKSUM) :]
    return b"".join(pieces)


def _checksum(raw: bytes, at: int) -> bytes:
    """Return the checksum of a file that stores its checksum at ``at``."""
    view = memoryview(raw)
    zeroed = crc32(view[at + len(_NO_CHECKSUM) :], crc32(_NO_CHECKSUM.encode(), crc32(view[:at])))
    return b"%08x" % zeroed
