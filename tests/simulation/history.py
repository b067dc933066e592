"""The record of a run, in order: what clients saw, and what was done to the cluster. The checkers read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MS = 1_000

ACKED, REFUSED, UNSURE = "acked", "refused", "unsure"


def name_of(content: bytes) -> str:
    """Return the name of a message, which its content begins with."""
    return content.partition(b"|")[0].decode()


@dataclass(slots=True)
class Send:
    """One attempt to send. ``answered_us`` is -1 before the answer; ``physical`` is the log offset in the answer."""

    content: bytes
    producer: str
    queue_id: int
    address: str
    invoked_us: int
    answered_us: int = -1
    outcome: str = UNSURE
    code: int = -1
    queue_offset: int = -1
    physical: int = -1
    epoch: int = -1  # its broker's newest when it answered
    epoch_id: str = ""
    is_sync: bool = False  # a SYNC_MASTER acknowledged it
    recall_handle: str = ""  # of a timer message


class Seen(NamedTuple):
    """One message as a consumer got it."""

    time_us: int
    queue_id: int
    queue_offset: int
    physical: int
    content: bytes
    address: str
    epoch: int
    epoch_id: str
    group: str


class Commit(NamedTuple):
    """A group's offset that a broker accepted. ``epoch`` is that broker's newest when it was asked."""

    time_us: int
    group: str
    queue_id: int
    offset: int
    address: str
    was_master: bool
    epoch: int


class Incident(NamedTuple):
    """An event that may cost messages or offsets. ``kind``: kill, power, stop, promote, force.

    ``detail``: for power, the id of the epoch that it ended, if any; for promote and force, the new epoch.
    ``offsets``: what the promoted broker had before that, by topic@group and queue.
    ``is_done``: the promoted broker is the master by now.
    """

    time_us: int
    kind: str
    node: str
    detail: str = ""
    offsets: Mapping[str, Mapping[str, int]] = {}
    is_done: bool = False


@dataclass
class History:
    """The whole record of one run."""

    sends: list[Send] = field(default_factory=list)
    sent: dict[bytes, Send] = field(default_factory=dict)  # the same sends by content
    timer_sends: list[Send] = field(default_factory=list)
    recalls: list[Send] = field(default_factory=list)  # their content is that of the timer message
    batch_sends: list[Send] = field(default_factory=list)
    lite_sends: list[Send] = field(default_factory=list)
    priority_sends: list[Send] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    lies: Counter[str] = field(default_factory=Counter)
    trace: list[str] | None = None
    now_us: int = 0

    def of_a_group(self) -> History:
        """Return a history of one group: sends and what was seen are its own, counts and violations are shared."""
        return History(violations=self.violations, faults=self.faults, operations=self.operations, trace=self.trace)

    def begin(self, send: Send) -> None:
        """Record a send that begins now."""
        self.sends.append(send)
        self.sent[send.content] = send

    def note(self, text: str) -> None:
        """Add a line to the trace, if there is one."""
        if self.trace is not None:
            self.trace.append(text)

    def violated(self, text: str) -> None:
        """Record a broken promise. The run goes on: the checkers at its end may say more."""
        if len(self.violations) < 20:
            self.violations.append(text)
        self.note(f"VIOLATION {text}")

    def incident(
        self,
        time_us: int,
        kind: str,
        node: str,
        detail: str = "",
        offsets: Mapping[str, Mapping[str, int]] | None = None,
        *,
        is_done: bool = False,
    ) -> None:
        self.incidents.append(Incident(time_us, kind, node, detail, offsets or {}, is_done))
