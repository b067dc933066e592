"""``pymq raft secret`` and ``term``: files of a member, on its machine."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from pymq.broker.raft.node_directory import RAFT_STATE_FILE
from pymq.broker.raft.secret_file import (
    FORMER,
    NEXT,
    SECRET_SIZE_BYTES,
    Secrets,
    decode_secrets,
    next_step,
    write_secrets,
)
from pymq.broker.raft.state_files import RaftStateFile
from pymq.errors import UsageError
from pymq.raft.state import RaftState
from pymq.security.local_secret import absolute_path
from pymq.store.disk.fs import Files

_NEXT_TEXTS = {
    NEXT: "members accept the next secret too: give every member this file, wait 2 s, and run the command again",
    FORMER: "members use the next secret now: give every member this file, wait 2 s, and run the command again",
    "": "the former secret is gone: give every member this file",
}


def make_secret(files: Files, path: str, rng: random.Random) -> str:
    """Write a file with a new secret; return what to do next. Raises UsageError when there is a file, OSError."""
    target = absolute_path(path)
    if files.exists(target):
        raise UsageError(f"{target} is there already: with --next its secret is replaced, step by step")
    write_secrets(files, target, Secrets(rng.randbytes(SECRET_SIZE_BYTES)))
    return f"{target} has a new secret: give every member the same file, and set raftSecretFile to its place"


def change_secret(files: Files, path: str, rng: random.Random) -> str:
    """Take the next step of a change; return what to do next. Raises ConfigError for another file, OSError."""
    target = absolute_path(path)
    changed = next_step(decode_secrets(files.read_bytes(target), target), rng.randbytes(SECRET_SIZE_BYTES))
    write_secrets(files, target, changed)
    return f"{target}: {_NEXT_TEXTS[changed.kind]}"


class StoredTerm(NamedTuple):
    """What a stopped member's disk says. ``term_min``: the least term that may be set, that of its newest bytes."""

    node: str
    disk_id: str
    term: int
    term_min: int
    voted_for: str

    def record(self) -> dict[str, Any]:
        return self._asdict()


def stored_term(files: Files, root: str, wanted: int | None = None) -> StoredTerm:
    """Return the term of the member with this data directory; ``wanted``: set it first.

    Raises UsageError for a directory of no member, or a term below its newest bytes; StoreError while a broker uses it.
    """
    directory = absolute_path(root)
    if not files.exists(f"{directory}/config/{RAFT_STATE_FILE}"):
        raise UsageError(f"{directory} is no data directory of a member: it has no config/{RAFT_STATE_FILE}")
    lock = files.lock(f"{directory}/lock")
    try:
        state_file = RaftStateFile(files, directory, random.Random())
        return _shown(state_file.read() if wanted is None else state_file.set_term(wanted))
    finally:
        lock.release()


def _shown(state: RaftState) -> StoredTerm:
    newest = state.epochs[-1].number if state.epochs else 0
    return StoredTerm(*state.replica, state.term, newest, state.vote.node_id if state.vote is not None else "")
