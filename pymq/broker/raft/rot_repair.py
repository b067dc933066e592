"""RotRepair: a node whose log is damaged does not lead while others can, and gets the bytes from them.

What is confirmed is the same on all members, byte for byte, and each knows the digests of its blocks. So a damaged
block is asked of one member after the other, and written in its place when it is as the own digest says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pymq.broker.raft.driver import RaftDriver
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.raft.problems import RecentProblems

STEP_BYTES = 2 << 20  # looked at with each tick, about a millisecond
HAND_OVER_TICKS = 200  # a damaged leader tries to hand over so often (10 s): all members may be damaged
LEADERLESS_TICKS = 100  # after so long without a leader (5 s) a damaged node may lead: no other one does
_KIND = "damage"
MENDED_SHOWN_COUNT = 8  # log lines of a start that name mended blocks


class Scan(Protocol):
    """A store's ``scan``."""

    @property
    def damaged(self) -> Mapping[int, int]:
        """Damaged blocks: physical offset of the begin -> of the end."""
        ...

    def step(self, size_max: int) -> None: ...
    def forget_behind(self, end: int) -> None: ...
    def mend(self, start: int, data: bytes | memoryview) -> bool: ...


class RotRepair:
    """Looks at one node's log with each tick. ``members``: addresses of the other nodes."""

    def __init__(
        self,
        reader: LogReader,
        members: Sequence[str],
        *,
        successor: Callable[[], str],
        problems: RecentProblems,
        on_mended: Callable[[str], None],
    ) -> None:
        """``successor``: the node that leadership should go to. ``on_mended`` gets a text for the log."""
        self._reader = reader
        self._members = members
        self._successor = successor
        self._problems = problems
        self._on_mended = on_mended
        self._is_asking = False
        self._asked_count = 0
        self._wait_ticks = 0  # until a leader hands over again
        self._leaderless_ticks = 0
        self.mended_count = 0

    def tick(self, driver: RaftDriver, scan: Scan) -> None:
        """Look on, and do what damage needs: not lead, hand over, ask for the bytes."""
        scan.step(STEP_BYTES)
        scan.forget_behind(driver.node.log.end)
        self._leaderless_ticks = 0 if driver.node.leader is not None else self._leaderless_ticks + 1
        if not scan.damaged:
            self._wait_ticks = 0
            self._problems.over(_KIND)
            return
        first = min(scan.damaged)
        self._problems.note(
            f"this node's log is damaged in {len(scan.damaged)} blocks, first at offset {first}: it gets them from "
            "other members, and leads when no other one can",
            _KIND,
        )
        driver.node.may_lead = driver.node.may_lead and self._leaderless_ticks >= LEADERLESS_TICKS
        if driver.node.leadership is not None:
            self._hand_over(driver)
        self._ask(driver, scan)

    def _hand_over(self, driver: RaftDriver) -> None:
        self._wait_ticks -= 1
        leadership = driver.node.leadership
        if self._wait_ticks >= 0 or driver.is_held or leadership is None or leadership.transfer_target is not None:
            return
        self._wait_ticks = HAND_OVER_TICKS
        if successor := self._successor():
            driver.transfer(successor)

    def _ask(self, driver: RaftDriver, scan: Scan) -> None:
        """Ask the next member for the next damaged block that is confirmed."""
        confirmed = sorted((start, end) for start, end in scan.damaged.items() if end <= driver.node.confirm_offset)
        if self._is_asking or not confirmed or not self._members:
            return
        self._is_asking = True
        start, end = confirmed[self._asked_count // len(self._members) % len(confirmed)]
        address = self._members[self._asked_count % len(self._members)]

        def take(data: memoryview | bytes) -> None:
            self._is_asking = False
            try:
                is_mended = scan.mend(start, data)
            except OSError as error:
                self._problems.note(f"the block at offset {start} can't be written: {error}", _KIND)
                return
            if is_mended:
                self.mended_count += 1
                if self.mended_count <= MENDED_SHOWN_COUNT:
                    self._on_mended(f"the block at offset {start} was damaged, and is mended with bytes of {address}")
            else:
                self._asked_count += 1

        def fail(why: str) -> None:
            self._is_asking = False
            self._asked_count += 1

        self._reader.ask(address, start, end - start, take, fail)
