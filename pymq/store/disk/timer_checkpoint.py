"""``config/timercheck``: how far a RocketMQ broker has come with timer messages (Java: TimerCheckpoint).

PyMQ serves no timer messages. A slave of a RocketMQ master keeps the file as RocketMQ's own slave does, for the day its
directory is a RocketMQ broker's: what the master has delivered is not to be delivered once more from an older wheel.
"""

from __future__ import annotations

import struct
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
# Places in a broker's own wheel and log, which are not copied: its own file has them.
OWN_FIELDS: Final = (LOG_FLUSHED, QUEUE_OFFSET)
_LAYOUT = struct.Struct(">7q")
_BYTES_MIN = 32  # the version came later


def read_timer_check(raw: bytes) -> dict[str, int]:
    """Field -> value of a file's or an answer's (60) bytes. Raises ValueError for less than they have."""
    if len(raw) < _BYTES_MIN:
        raise ValueError(f"a timer check point has {_BYTES_MIN} bytes or more, these are {len(raw)}")
    head = raw[: _LAYOUT.size].ljust(_LAYOUT.size, b"\0")
    return dict(zip(FIELDS, _LAYOUT.unpack(head), strict=True))


class TimerCheckFile:
    """The file below a store's root. See :class:`pymq.broker.metadata.state.Table`; a power loss may take back what was saved
    last, which is as if it had come later."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._path = f"{root}/config/timercheck"

    def load(self) -> dict[str, int]:
        """All fields, ``{}`` when there is no file, or none that can be used."""
        if not self._files.exists(self._path):
            return {}
        try:
            return read_timer_check(self._files.read_bytes(self._path)[: _LAYOUT.size])
        except ValueError:
            return {}

    def save(self, value: dict[str, int]) -> None:
        """Puts the master's fields over the file's; the broker's own stay. Raises StoreError."""
        before = self.load()
        fields = {**value, **{name: before.get(name, 0) for name in OWN_FIELDS}}
        try:
            file = self._files.open(self._path, create=True)
            try:
                if file.size() < FILE_BYTES:
                    file.truncate(FILE_BYTES)
                file.pwrite(0, _LAYOUT.pack(*(fields[name] for name in FIELDS)))
            finally:
                file.close()
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror or error}") from error
