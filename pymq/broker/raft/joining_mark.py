"""JoiningMark: how far a replica has come that gets the group's log in the place of its own.

The log that it had is set aside in ``raftFormer/`` before the first byte comes, and goes when the new one is installed.
Until then it can be put back: another node's word destroys nothing. The file ``config/raftJoining`` says what a start
has to finish, so a crash in each step leaves the former log or the new one, and never a mixture.
"""

from __future__ import annotations

import logging
from threading import Lock

from pymq.broker.raft.bodies import founding_id
from pymq.broker.raft.node_directory import RAFT_STATE_FILE, TABLES_FILE
from pymq.broker.raft.state_files import decode
from pymq.broker.raft.table_records import TABLE_KINDS
from pymq.errors import StoreError
from pymq.store.disk.fs import Files, make_directory, put_file
from pymq.store.replica.epoch_table import EPOCH_HISTORY_FILE

log = logging.getLogger(__name__)

# What the mark says: the former log is being set aside; a log is copied; the former log is being put back.
ASIDE, COPY, BACK = "aside", "copy", "back"
FORMER_DIRECTORY = "raftFormer"
_MARK = "raftJoining"
_KEPT = frozenset({"config", "lock", "divergent", "audit", FORMER_DIRECTORY})  # of the broker's directory
# Files in config/ that say something about the log.
_NAMES = (RAFT_STATE_FILE, TABLES_FILE, EPOCH_HISTORY_FILE, "timercheck", "timermetrics", *TABLE_KINDS)
_ABOUT_THE_LOG = (*_NAMES, *(f"{name}.bak" for name in _NAMES))


class JoiningMark:
    """The mark of the broker directory ``root``. Its methods raise OSError and StoreError.

    No store may be open while files move.
    """

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._former = f"{root}/{FORMER_DIRECTORY}"
        self._path = f"{root}/config/{_MARK}"
        self._lock = Lock()  # files move in one thread at a time

    @property
    def is_set(self) -> bool:
        return self._files.exists(self._path)

    @property
    def has_former(self) -> bool:
        """True while there is a log that can be put back."""
        return self.is_set and self._files.exists(self._former)

    def former_group(self) -> str:
        """Return the founding id of the group that the log set aside belongs to; empty without one."""
        path = f"{self._former}/config/{RAFT_STATE_FILE}"
        if not self._files.exists(path):
            return ""
        try:
            state = decode(self._files.read_bytes(path))
        except ValueError as error:
            log.warning("%s: %s", path, error)
            return ""
        return founding_id(state.memberships[0].membership) if state.is_founded else ""

    def set(self) -> None:
        """A log is about to be copied into this directory, which has none."""
        if not self.is_set:
            self._write(COPY)

    def remove(self) -> None:
        """One log is in its place: a start has nothing to finish. :meth:`drop_former` removes another one."""
        self._files.remove(self._path)
        self._files.sync_dir(f"{self._root}/config")

    def drop_former(self) -> None:
        """Remove a former log that nobody needs. It may take long, so another thread may do it."""
        with self._lock:
            if not self.is_set:
                self._drop_former()

    def recover(self) -> None:
        """Finish what the last run has begun, before a store is opened."""
        with self._lock:
            if not self.is_set:
                self._drop_former()
            elif self._phase() == BACK:
                self._move_back()
            else:
                self._discard()

    def discard(self) -> None:
        """Make the directory one without a log. What it has is set aside, or dropped if it is an unfinished copy."""
        with self._lock:
            self._discard()

    def _discard(self) -> None:
        if not self.is_set:
            self._drop_former()
            self._write(ASIDE)
        if self._phase() == ASIDE:
            self._move(self._root, self._former)
            self._write(COPY)
            log.warning("the log of %s is set aside in %s until another one is installed", self._root, self._former)
        else:
            self._clear_root()
        log.warning("%s has no log now: it joins its Raft group with a new disk id", self._root)

    def put_back(self) -> None:
        """Make the directory what it was before its log was set aside."""
        assert self.has_former
        with self._lock:
            self._clear_root()
            self._write(BACK)
            self._move_back()

    def _move_back(self) -> None:
        self._move(self._former, self._root)
        self.remove()
        self._drop_former()
        log.warning("the former log of %s is back", self._root)

    def _move(self, source: str, target: str) -> None:
        """Move log and files about it. What is in both places moves again: a crash may leave its former name."""
        files = self._files
        make_directory(files, f"{target}/config")
        for name in (*(name for name in files.listdir(source) if name not in _KEPT), *map(_in_config, _ABOUT_THE_LOG)):
            if files.exists(f"{source}/{name}"):
                self._drop(f"{target}/{name}")
                files.replace(f"{source}/{name}", f"{target}/{name}")
        for directory in (f"{target}/config", target, f"{source}/config", source):
            files.sync_dir(directory)

    def _clear_root(self) -> None:
        """Remove an unfinished copy."""
        names = [name for name in self._files.listdir(self._root) if name not in _KEPT]
        for name in (*names, *map(_in_config, _ABOUT_THE_LOG)):
            self._drop(f"{self._root}/{name}")
        self._files.sync_dir(f"{self._root}/config")
        self._files.sync_dir(self._root)

    def _drop_former(self) -> None:
        if self._files.exists(self._former):
            self._drop(self._former)
            self._files.sync_dir(self._root)

    def _drop(self, path: str) -> None:
        if self._files.is_dir(path):
            self._files.remove_tree(path)
        elif self._files.exists(path):
            self._files.remove(path)

    def _phase(self) -> str:
        phase = self._files.read_bytes(self._path).decode(errors="replace").strip()
        if phase not in (ASIDE, COPY, BACK):
            raise StoreError(
                f"{self._path} says {phase[:20]!r}, it must be {ASIDE}, {COPY} or {BACK}: nothing is moved or removed; "
                f"look at {self._former}, which has the log from before, and remove the file when all is in its place"
            )
        return phase

    def _write(self, phase: str) -> None:
        make_directory(self._files, f"{self._root}/config")
        put_file(self._files, self._path, phase.encode())
        self._files.sync_dir(f"{self._root}/config")


def _in_config(name: str) -> str:
    return f"config/{name}"
