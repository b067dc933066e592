"""The result of a directory check: damage by kind with the place of its first byte, notes, and counts of parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FINDINGS_MAX = 100  # listed per kind; all are counted
NOTES_MAX = 100
KINDS = ("log", "record", "queue", "index", "table", "checkpoint", "digest", "file")


@dataclass(frozen=True, slots=True)
class Finding:
    """One damage. ``position`` is a byte in the file, ``physical_offset`` one of the log; None where it has none."""

    kind: str
    text: str
    path: str
    position: int | None = None
    physical_offset: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.path,
            "position": self.position,
            "physical_offset": self.physical_offset,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A queue unit whose record is damaged or gone: the message can't be read any more."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "queue_id": self.queue_id,
            "queue_offset": self.queue_offset,
            "physical_offset": self.physical_offset,
        }


@dataclass(slots=True)
class Report:
    """The outcome of a check.

    ``clean`` is true when the broker stopped in order. ``counts`` is the damage by kind; ``looked_at`` counts the
    checked records, units and so on.
    """

    directory: str
    clean: bool
    log_start: int = 0
    log_end: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: list[LostMessage] = field(default_factory=list)
    lost_count: int = 0
    looked_at: dict[str, int] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not self.counts

    @property
    def first_bad(self) -> Finding | None:
        """The first damage: in the log by its offset, then in what derives from the log."""
        in_log = [
            one for one in self.findings if one.kind in ("log", "record", "digest") and one.physical_offset is not None
        ]
        if in_log:
            return min(in_log, key=lambda one: one.physical_offset or 0)
        return min(self.findings, key=lambda one: KINDS.index(one.kind), default=None)

    def add(
        self, kind: str, text: str, path: str, position: int | None = None, physical_offset: int | None = None
    ) -> None:
        """Count one damage and keep its text, up to a limit per kind."""
        assert kind in KINDS
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= FINDINGS_MAX:
            self.findings.append(Finding(kind, text, path, position, physical_offset))

    def note(self, text: str) -> None:
        """Add something that an operator may want to know and that is not damage."""
        if len(self.notes) < NOTES_MAX:
            self.notes.append(text)

    def lose(self, message: LostMessage) -> None:
        """Count one message that can't be read any more."""
        self.lost_count += 1
        if len(self.lost) < FINDINGS_MAX:
            self.lost.append(message)

    def saw(self, what: str, count: int = 1) -> None:
        """Count checked parts."""
        self.looked_at[what] = self.looked_at.get(what, 0) + count

    def as_json(self) -> dict[str, Any]:
        first = self.first_bad
        return {
            "directory": self.directory,
            "sound": self.sound,
            "clean_stop": self.clean,
            "log_start": self.log_start,
            "log_end": self.log_end,
            "looked_at": dict(self.looked_at),
            "damage": {kind: self.counts.get(kind, 0) for kind in KINDS},
            "first_bad": first.as_json() if first is not None else None,
            "findings": [finding.as_json() for finding in self.findings],
            "lost_count": self.lost_count,
            "lost": [message.as_json() for message in self.lost],
            "notes": list(self.notes),
        }
