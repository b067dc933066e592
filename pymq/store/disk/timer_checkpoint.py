"""``config/timercheck``: a RocketMQ broker's progress with timer messages (Java: TimerCheckpoint).

A broker writes it when wheel and log are on the disk (:class:`pymq.store.timer.timer_store.TimerStore`). A slave takes
the master's two fields, so that it delivers nothing again that the master has delivered, once it is the master.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from pymq.errors import StoreError
from pymq.store.disk.fs import Files

FILE_BYTES: Final = 4096
LAST_READ_TIME, QUEUE_OFFSET_OF_MASTER = "lastReadTimeMs", "masterTimerQueueOffset"
LOG_FLUSHED, QUEUE_OFFSET = "lastTimerLogFlushPos", "lastTimerQueueOffset"
FIELDS: Final = (
    LAST_READ_TIME,
    LOG_FLUSHED,
    QUEUE_OFFSET,
    QUEUE_OFFSET_OF_MASTER,
    "stateVersion",
    "timestamp",
    "counter",
)
# Positions in a broker's own timer wheel and log, which are not copied from the master.
OWN_FIELDS: Final = (LOG_FLUSHED, QUEUE_OFFSET)
_LAYOUT = struct.Struct(">7q")
_BYTES_MIN = 32  # older files end before stateVersion


def read_timer_check(raw: bytes) -> dict[str, int]:
    """Return field -> value of the bytes of a file or of a master's answer. Raises ValueError when they are too few."""
    if len(raw) < _BYTES_MIN:
        raise ValueError(f"a timer checkpoint has {_BYTES_MIN} bytes or more, these are {len(raw)}")
    head = raw[: _LAYOUT.size].ljust(_LAYOUT.size, b"\0")
    return dict(zip(FIELDS, _LAYOUT.unpack(head), strict=True))


def encode_timer_check(fields: Sequence[int]) -> bytes:
    """Return the bytes of :data:`FIELDS`: the begin of the file, and the answer to a slave."""
    return _LAYOUT.pack(*fields)


class TimerCheckFile:
    """The file below a store's root, as a :class:`pymq.broker.metadata.table_reading.Table`.

    The fields lie in one block of the disk, so a power loss leaves the old or the new ones.
    """

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._path = f"{root}/config/timercheck"

    def load(self) -> dict[str, int]:
        """Return all fields, ``{}`` when there is no usable file."""
        if not self._files.exists(self._path):
            return {}
        try:
            return read_timer_check(self._files.read_bytes(self._path)[: _LAYOUT.size])
        except ValueError:
            return {}

    def save(self, value: dict[str, int]) -> None:
        """Replace the master's fields in the file; the broker's own fields stay. Raises StoreError."""
        before = self.load()
        fields = {**value, **{name: before.get(name, 0) for name in OWN_FIELDS}}
        try:
            self.write([fields[name] for name in FIELDS])
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror or error}") from error

    def write(self, fields: Sequence[int]) -> None:
        """Write all of :data:`FIELDS` and bring them to the disk. Raises OSError."""
        is_new = not self._files.exists(self._path)
        file = self._files.open(self._path, create=True)
        try:
            if file.size() < FILE_BYTES:
                file.truncate(FILE_BYTES)
            file.pwrite(0, encode_timer_check(fields))
            file.sync()
        finally:
            file.close()
        if is_new:
            self._files.sync_dir(self._path.rpartition("/")[0])
