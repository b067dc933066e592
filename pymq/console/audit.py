"""Who changed what: a line for each attempt, done or refused."""

from __future__ import annotations

import json
import logging
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, Final

from pymq.clock import Clock
from pymq.printable import printable
from pymq.security.audit_file import AuditFile

log = logging.getLogger(__name__)

SIZE_MAX_BYTES: Final = 16 * 1024 * 1024
FILE_COUNT_MAX: Final = 10
SHOWN_COUNT_MAX: Final = 1_000
TEXT_LENGTH_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. ``session``: the begin of the session's hash; ``result``: "done", or why it was not.

    ``person``: the access key, "" where the cluster checks no users.
    """

    time_ms: int
    person: str
    address: str
    session: str
    context: str
    action: str
    subject: str
    before: Any
    after: Any
    result: str


class Audit:
    """Writes attempts to a file, if there is one, and keeps the newest in memory."""

    def __init__(self, clock: Clock, file: AuditFile | None = None) -> None:
        self.newest: deque[Attempt] = deque(maxlen=SHOWN_COUNT_MAX)
        self.problem = ""  # why the last line is not in the file
        self._clock = clock
        self._file = file

    def note(self, *, result: str, before: Any = None, after: Any = None, **about: str) -> None:
        """Note an attempt of now. ``about``: the texts of :class:`Attempt`."""
        texts = {name: printable(text[:TEXT_LENGTH_MAX]) for name, text in about.items()}
        attempt = Attempt(
            time_ms=self._clock.now_ms(),
            before=before,
            after=after,
            result=printable(result[:TEXT_LENGTH_MAX]),
            **texts,
        )
        self.newest.append(attempt)
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(asdict(attempt), ensure_ascii=True, default=str).encode() + b"\n")
            self.problem = ""
        except OSError as error:
            self.problem = f"{self._file.path} can't be written: {error}"
            log.error("audit: %s", self.problem)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
