"""Joining: a new replica gets the group's log (§7), and a replica that is too far behind becomes a new one.

A log is only ever copied into an empty directory. So a follower that needs a snapshot sets its log aside with its state
file, draws a new disk id, and joins as a node with an empty disk does: as a learner. It does so once the leader has
proven that it has a log from there on. Without a copy that goes on, the former log is put back: the node is what it
was. :mod:`pymq.broker.raft.joining_mark` has the steps on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from pymq.broker.raft.driver import RaftDriver
from pymq.broker.raft.joining_mark import JoiningMark
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.work.worker_threads import Result, RunInThread
from pymq.clock import Clock
from pymq.errors import StoreError
from pymq.raft.messages import Snapshot
from pymq.store.store import Follower, MessageStore

log = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20
PROBE_BYTES = 512  # that a leader must prove to have before a log is set aside
PUT_BACK_MS = 30_000  # without a byte; then the former log is put back


class SnapshotFetch:
    """Copies a snapshot's log from the leader into an empty store."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        address: str,
        reader: LogReader,
        store: MessageStore,
        follower: Follower,
        on_progress: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self.snapshot = snapshot
        self._address = address
        self._reader = reader
        self._on_progress = on_progress
        self._store = store
        self._follower = follower
        self._on_failure = on_failure
        self._is_closed = False

    def begin(self) -> None:
        """Ask for the first bytes. Raises StoreError."""
        if self.snapshot.begin:
            self._follower.start_at(self.snapshot.begin)
        self._ask()

    def close(self) -> None:
        """Ignore what still comes."""
        self._is_closed = True

    @property
    def is_on_disk(self) -> bool:
        """True when all bytes are on the disk."""
        return self._store.synced_offset >= self.snapshot.last.end == self._follower.end

    @property
    def is_whole(self) -> bool:
        return self._follower.end >= self.snapshot.last.end

    def _ask(self) -> None:
        start = self._follower.end
        if start < self.snapshot.last.end:
            size = min(PIECE_BYTES, self.snapshot.last.end - start)
            self._reader.ask(self._address, start, size, self._take, self._fail)

    def _take(self, data: memoryview | bytes) -> None:
        if self._is_closed:
            return
        try:
            self._follower.append(self._follower.end, data)
            self._on_progress()
            self._ask()
        except StoreError as error:
            self._fail(str(error))

    def _fail(self, why: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._on_failure(f"the log up to {self.snapshot.last.end} can't be copied from {self._address}: {why}")


class Joining:
    """A replica's way to its group's log. ``discards_log``: the broker closes its parts, then :meth:`change` comes."""

    def __init__(self, mark: JoiningMark, reader: LogReader, clock: Clock, run_in_thread: RunInThread) -> None:
        self.discards_log = False
        self.why_discarded = ""
        self.on_problem: Callable[[str], None] = lambda text: None
        self._mark = mark
        self._reader = reader
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._fetch: SnapshotFetch | None = None
        self._is_probing = self._puts_back = False
        self._progress_ms = clock.monotonic_ms()

    @property
    def is_copying(self) -> bool:
        return self._fetch is not None

    def offered(self, snapshot: Snapshot, address: str, store: MessageStore, follower: Follower) -> None:
        """Copy this snapshot from the leader at ``address``, unless one is being copied."""
        if self._fetch is not None:
            return
        if follower.end > 0:
            self._probe(snapshot, address)
            return
        fetch = SnapshotFetch(
            snapshot,
            address=address,
            reader=self._reader,
            store=store,
            follower=follower,
            on_progress=self._note_progress,
            on_failure=self._failed,
        )
        try:
            self._mark.set()
            self._fetch = fetch
            fetch.begin()
        except (OSError, StoreError) as error:
            self._failed(str(error))

    def _probe(self, snapshot: Snapshot, address: str) -> None:
        """Ask for the first bytes of the snapshot before the own log is set aside."""
        if self._is_probing or self.discards_log:
            return
        self._is_probing = True
        size_bytes = min(PROBE_BYTES, snapshot.last.end - snapshot.begin)
        self._reader.ask(address, snapshot.begin, size_bytes, self._probed, partial(self._not_there, address))

    def _probed(self, data: memoryview | bytes) -> None:
        self._is_probing = False
        self._discard("gets the group's log again, as a new replica; its own is set aside")

    def _not_there(self, address: str, why: str) -> None:
        self._is_probing = False
        self.on_problem(f"the log stays: {address} offers another one, and does not show it: {why}")

    def change(self) -> None:
        """Set the log aside, drop an unfinished copy, or put the former log back. No store is open. Raises OSError."""
        if self._puts_back and self._mark.has_former:
            self._mark.put_back()
        else:
            self._mark.discard()
        self._fetch, self.discards_log, self._puts_back = None, False, False
        self._note_progress()

    def _note_progress(self) -> None:
        self._progress_ms = self._clock.monotonic_ms()

    def _discard(self, why: str) -> None:
        self.discards_log, self.why_discarded = True, why

    def _put_back_when_stuck(self) -> None:
        waited_ms = self._clock.monotonic_ms() - self._progress_ms
        if waited_ms >= PUT_BACK_MS and not self.discards_log and self._mark.has_former:
            self._puts_back = True
            self._discard(f"takes its former log again: no byte of another one came for {waited_ms // 1000} s")

    def advance(self, driver: RaftDriver, request_sync: Callable[[], None]) -> None:
        """Install the snapshot once it is on the disk; remove the mark once the state with it is. Raises OSError."""
        fetch = self._fetch
        if not driver.node.log.memberships and (fetch is None or not fetch.is_whole):
            self._put_back_when_stuck()
        if fetch is None:
            return
        if driver.node.log.memberships:
            if not driver.is_held:
                self._mark.remove()
                self._fetch = None
                self._run_in_thread(self._drop_former, self._dropped)
        elif fetch.is_on_disk:
            if not driver.install(fetch.snapshot):
                self._failed(f"the snapshot that ends at {fetch.snapshot.last.end} is of no use any more")
        elif fetch.is_whole:
            request_sync()

    def _drop_former(self) -> int:
        self._mark.drop_former()
        return 0

    def _dropped(self, result: Result) -> None:
        try:
            result.result()
        except OSError as error:  # the next start tries again
            self.on_problem(f"the former log, which nobody needs any more, can't be removed: {error}")

    def interrupt(self) -> None:
        """The store is closed: what was being copied begins again."""
        if self._fetch is not None:
            self._failed("the copy of the log was interrupted")

    def _failed(self, why: str) -> None:
        self.on_problem(why)
        if self._fetch is not None:
            self._fetch.close()
        self._fetch = None
        self._discard("copies the group's log from its begin")
