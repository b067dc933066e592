"""Audit: one JSON line for each change that an operator makes, and for each refused request.

Each kind of line has its own limit in a minute, so that one peer can't fill the log. Another line says how many were
left out. :class:`~pymq.security.audit_file.AuditFile` bounds what is on the disk. Secrets are masked. A line that can't
be written is counted, and the request goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.model.access import Need
from pymq.security.audit_file import AuditFile
from pymq.security.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from pymq.wire.codes import ResponseCode, request_name
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer, Route, Sender
from pymq.wire.header import decode_header
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

CHANGE, REFUSAL, OMITTED = "change", "refusal", "omitted"
PERIOD_MS: Final = 60_000
# Lines of one kind in PERIOD_MS. A kind is what happened and the request code; all codes that are not served are one.
LINES_MAX: Final = {CHANGE: 6000, REFUSAL: 60}
TEXT_LENGTH_MAX: Final = 200  # of a value; 255 of a user's name
NAME_LENGTH_MAX: Final = 255
FIELDS_MAX: Final = 32
RESOURCES_MAX: Final = 32
MASK: Final = "***"
FORBIDDEN: Final = 40300  # a call's status when its user is proven and may not do that
# In the place of a request code.
NOT_SERVED: Final = -1
CALLS: Final = -2  # of gRPC
_NO_REQUESTS: Final = {NOT_SERVED: "not served", CALLS: "gRPC calls"}
_NOT_SHOWN: Final = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN})
_SECRET_PARTS: Final = ("secret", "password", "token", "credential")


@dataclass(slots=True)
class _Kind:
    name: str
    began_ms: int
    line_count: int = 0
    omitted_count: int = 0


class Audit:
    """An :class:`~pymq.wire.dispatch.Auditor`. Belongs to the event loop's thread."""

    def __init__(self, file: AuditFile, clock: Clock, server: str, cluster: str) -> None:
        """``server``: the server's name in the lines. ``cluster``: as for :class:`~pymq.security.guard.Guard`."""
        self.written_count = 0
        self.omitted_count = 0  # beyond the limit of their kind
        self.failed_count = 0  # that could not be written
        self._file = file
        self._clock = clock
        self._server = server
        self._cluster = cluster
        self._kinds: dict[tuple[str, int], _Kind] = {}
        self._is_failing = False

    def note(self, request: Command, peer: Peer, route: Route | None, sender: Sender | None, reply: Reply) -> None:
        """Write a line about a request and its answer."""
        what = REFUSAL if reply.code == ResponseCode.NO_PERMISSION else CHANGE
        if not self._has_room(what, request.code if route is not None else NOT_SERVED):
            return
        line: dict[str, Any] = {
            "what": what,
            "code": request.code,
            "name": request_name(request.code),
            "user": (sender.name if sender is not None else "") or request.ext.get(ACCESS_KEY, "")[:NAME_LENGTH_MAX],
            "proven": sender is not None and sender.is_proven,
            "from": peer.address,
            "resources": self._resources(request, route),
            "fields": shown_fields(request.ext),
            "body_bytes": len(request.body),
            "result": reply.code,
            "remark": (reply.remark or "")[:TEXT_LENGTH_MAX],
        }
        self._write(line)

    def note_call(self, method: str, user: str, peer: str, needs: Iterable[Need], code: int, text: str) -> None:
        """Write a line about a refused call of gRPC. ``peer``: "host:port"; ``code`` and ``text`` are its status."""
        if not self._has_room(REFUSAL, CALLS):
            return
        line: dict[str, Any] = {
            "what": REFUSAL,
            "call": method,
            "user": user[:NAME_LENGTH_MAX],
            "proven": code == FORBIDDEN,
            "from": peer,
            "resources": _shown_resources(needs),
            "result": code,
            "remark": text[:TEXT_LENGTH_MAX],
        }
        self._write(line)

    def tick(self) -> None:
        """Say how many lines were left out, once their minute is over. Call it now and then."""
        now_ms = self._clock.monotonic_ms()
        for (what, code), kind in list(self._kinds.items()):
            if now_ms - kind.began_ms >= PERIOD_MS:
                del self._kinds[what, code]
                self._tell_omitted(what, code, kind)

    def close(self) -> None:
        """Say how many lines were left out, and close the file."""
        for (what, code), kind in self._kinds.items():
            self._tell_omitted(what, code, kind)
        self._kinds.clear()
        self._file.close()

    def _has_room(self, what: str, code: int) -> bool:
        now_ms = self._clock.monotonic_ms()
        kind = self._kinds.get((what, code))
        if kind is not None and now_ms - kind.began_ms >= PERIOD_MS:
            self._tell_omitted(what, code, kind)
            kind = None
        if kind is None:
            kind = self._kinds[what, code] = _Kind(_NO_REQUESTS.get(code) or request_name(code), now_ms)
        if kind.line_count >= LINES_MAX[what]:
            kind.omitted_count += 1
            self.omitted_count += 1
            return False
        kind.line_count += 1
        return True

    def _tell_omitted(self, what: str, code: int, kind: _Kind) -> None:
        if kind.omitted_count:
            line = {"what": OMITTED, "of": what, "code": code, "name": kind.name, "lines": kind.omitted_count}
            self._write({**line, "limit": LINES_MAX[what], "seconds": PERIOD_MS // 1000})

    def _resources(self, request: Command, route: Route | None) -> list[str]:
        """Return what the request is about, as far as it says that itself."""
        if route is None:
            return []
        try:
            header = decode_header(route.header, request.ext) if route.header is not None else None
            needs = route.access.needs(request, header, self._cluster)
        except PymqError:
            return []
        return _shown_resources(needs)

    def _write(self, line: dict[str, Any]) -> None:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        encoded = msgspec.json.encode({"time": now.replace("+00:00", "Z"), "server": self._server, **line}) + b"\n"
        try:
            self._file.write(encoded)
            self.written_count += 1
            self._is_failing = False
        except OSError as error:
            self.failed_count += 1
            if not self._is_failing:
                log.error("the audit log can't be written (%s: %s): its lines are lost", self._file.path, error)
            self._is_failing = True


def _shown_resources(needs: Iterable[Need]) -> list[str]:
    return list(dict.fromkeys(str(need.resource)[: 2 * NAME_LENGTH_MAX] for need in needs))[:RESOURCES_MAX]


def shown_fields(ext: Mapping[str, str]) -> dict[str, str]:
    """Return a request's fields as a line shows them: secrets masked, long ones cut, the first FIELDS_MAX."""
    shown: dict[str, str] = {}
    for name, value in ext.items():
        if name in _NOT_SHOWN:
            continue
        if len(shown) >= FIELDS_MAX:
            break
        is_secret = any(part in name.lower() for part in _SECRET_PARTS)
        shown[name[:TEXT_LENGTH_MAX]] = MASK if is_secret else str(value)[:TEXT_LENGTH_MAX]
    return shown
