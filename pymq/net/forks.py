"""Tells clients and loop threads that this process is a forked child, which has none of the parent's threads.

A child shares the parent's sockets and its selector: a client that went on with them would mix its frames with the
parent's, or wait for a thread that does not run here.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    """``after_fork()`` runs in the child, before any other code of it; it must neither wait nor raise."""

    def after_fork(self) -> None: ...


_members: WeakSet[ForkAware] = WeakSet()


def notify_of_forks(member: ForkAware) -> None:
    """Call ``member.after_fork()`` in each child that ``os.fork()`` makes, as long as the member exists."""
    _members.add(member)


def release_socket(file_number: int) -> None:
    """End this process's share of a socket, so that the parent's close reaches the peer.

    The number stays in use, for /dev/null: what still refers to it can't hit a file that is opened later.
    """
    if file_number < 0:
        return
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(null, file_number, inheritable=False)
    finally:
        os.close(null)


def _after_fork() -> None:
    for member in list(_members):
        member.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
