"""Joining: a new replica gets the group's log (§7), and a replica that is too far behind becomes a new one.

A log is only ever copied into an empty directory. So a follower that needs a snapshot discards its log with its state
file, draws a new disk id, and joins as a node with an empty disk does: as a learner. What it had is below the leader's
log begin, so it is confirmed. A mark is on the disk before the first byte and until the state with the snapshot is
saved: a start that finds it discards the directory again, so a crash in between counts as an empty disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

import msgspec

from pymq.broker.raft.driver import RaftDriver
from pymq.broker.raft.state_files import RAFT_STATE_FILE
from pymq.broker.raft.table_files import TABLES_FILE
from pymq.broker.raft.table_records import TABLE_KINDS
from pymq.errors import StoreError
from pymq.raft.messages import Snapshot
from pymq.store.disk.fs import Files, make_directory
from pymq.store.replica.epoch_table import EPOCH_HISTORY_FILE
from pymq.store.store import Follower, MessageStore
from pymq.wire.bodies_replication import ReadLogRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.streams import Network

log = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20
ASK_TIMEOUT_MS = 5000
_MARK = "raftJoining"
_KEPT = frozenset({"config", "lock", "divergent", "audit"})  # of the broker's directory
# Files in config/ that say something about the log.
_ABOUT_THE_LOG = (
    RAFT_STATE_FILE, TABLES_FILE, EPOCH_HISTORY_FILE, "timercheck", "timermetrics", *TABLE_KINDS,
)  # fmt: skip


class JoiningMark:
    """The mark of the broker directory ``root``. Its methods raise OSError."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._path = f"{root}/config/{_MARK}"

    @property
    def is_set(self) -> bool:
        return self._files.exists(self._path)

    def set(self) -> None:
        make_directory(self._files, f"{self._root}/config")
        with closing(self._files.open(self._path, create=True)) as file:
            file.sync()
        self._files.sync_dir(f"{self._root}/config")

    def remove(self) -> None:
        self._files.remove(self._path)
        self._files.sync_dir(f"{self._root}/config")

    def discard(self) -> None:
        """Make the directory one without a log. No store may be open in it. The mark stays until a log is there."""
        self.set()
        for name in (*_ABOUT_THE_LOG, *(f"{name}.bak" for name in _ABOUT_THE_LOG)):
            path = f"{self._root}/config/{name}"
            if self._files.exists(path):
                self._files.remove(path)
        self._files.sync_dir(f"{self._root}/config")
        for name in self._files.listdir(self._root):
            path = f"{self._root}/{name}"
            if name in _KEPT:
                continue
            if self._files.is_dir(path):
                self._files.remove_tree(path)
            else:
                self._files.remove(path)
        self._files.sync_dir(self._root)
        log.warning("%s has no log now: it joins its Raft group with a new disk id", self._root)


class SnapshotFetch:
    """Copies a snapshot's log from the leader into an empty store."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        address: str,
        network: Network,
        store: MessageStore,
        follower: Follower,
        on_failure: Callable[[str], None],
    ) -> None:
        self.snapshot = snapshot
        self._address = address
        self._network = network
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
            body = msgspec.json.encode(ReadLogRequest(start=start, size_bytes=size))
            ask = request(RequestCode.PYMQ_READ_LOG, None, body)
            self._network.ask(self._address, ask, self._answered, ASK_TIMEOUT_MS)

    def _answered(self, answer: Command | str) -> None:
        if self._is_closed:
            return
        if isinstance(answer, str) or answer.code != ResponseCode.SUCCESS or not answer.body:
            self._fail(answer if isinstance(answer, str) else f"code {answer.code}: {answer.remark}")
            return
        try:
            self._follower.append(self._follower.end, answer.body)
            self._ask()
        except StoreError as error:
            self._fail(str(error))

    def _fail(self, why: str) -> None:
        self._is_closed = True
        self._on_failure(f"the log up to {self.snapshot.last.end} can't be copied from {self._address}: {why}")


class Joining:
    """A replica's way to the group's log. ``discards_log``: its broker is to discard the log it has, and begin anew."""

    def __init__(self, mark: JoiningMark, network: Network) -> None:
        self.discards_log = False
        self.on_problem: Callable[[str], None] = lambda text: None
        self._mark = mark
        self._network = network
        self._fetch: SnapshotFetch | None = None

    @property
    def is_copying(self) -> bool:
        return self._fetch is not None

    def offered(self, snapshot: Snapshot, address: str, store: MessageStore, follower: Follower) -> None:
        """Copy this snapshot from the leader at ``address``, unless one is being copied."""
        if self._fetch is not None:
            return
        if follower.end > 0:
            self.discards_log = True
            return
        fetch = SnapshotFetch(
            snapshot,
            address=address,
            network=self._network,
            store=store,
            follower=follower,
            on_failure=self._failed,
        )
        try:
            self._mark.set()
            self._fetch = fetch
            fetch.begin()
        except (OSError, StoreError) as error:
            self._failed(str(error))

    def advance(self, driver: RaftDriver, request_sync: Callable[[], None]) -> None:
        """Install the snapshot once it is on the disk; remove the mark once the state with it is. Raises OSError."""
        fetch = self._fetch
        if fetch is None:
            return
        if driver.node.log.memberships:
            if not driver.is_held:
                self._mark.remove()
                self._fetch = None
        elif fetch.is_on_disk:
            if not driver.install(fetch.snapshot):
                self._failed(f"the snapshot that ends at {fetch.snapshot.last.end} is of no use any more")
        elif fetch.is_whole:
            request_sync()

    def interrupt(self) -> None:
        """The store is closed: what was being copied begins anew."""
        if self._fetch is not None:
            self._failed("the copy of the log was interrupted")

    def forget(self) -> None:
        """The log was discarded."""
        self._fetch, self.discards_log = None, False

    def _failed(self, why: str) -> None:
        self.on_problem(why)
        if self._fetch is not None:
            self._fetch.close()
        self._fetch, self.discards_log = None, True
