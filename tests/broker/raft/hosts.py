"""Hosts: a machine of its own for each node, made of network namespaces on a bridge. Linux and root only.

What a signal can't do is done here: nodes that run, but don't hear each other, while clients hear them all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType

BRIDGE = "pymq-raft"
NETWORK = "10.213.41"  # .1 is the bridge, where name server and clients are


class NoHostsError(Exception):
    """This machine makes no network namespaces: the text says what is missing."""


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoHostsError(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")


class Hosts:
    """As a context manager it makes the hosts of ``nodes`` (ids of nodes), and removes them."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.outside = f"{NETWORK}.1"
        self.addresses = {node: f"{NETWORK}.{number + 11}" for number, node in enumerate(nodes)}

    def __enter__(self) -> Hosts:
        if shutil.which("ip") is None or os.geteuid() != 0:
            raise NoHostsError("partitions need Linux, root, and the command ip of iproute2")
        self._remove()
        try:
            _ip("link", "add", BRIDGE, "type", "bridge")
            _ip("address", "add", f"{self.outside}/24", "dev", BRIDGE)
            _ip("link", "set", BRIDGE, "up")
            for node, address in self.addresses.items():
                self._make(node, address)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self, node: str, address: str) -> None:
        _ip("netns", "add", self._name(node))
        _ip("link", "add", self._name(node), "type", "veth", "peer", "name", "eth0", "netns", self._name(node))
        _ip("link", "set", self._name(node), "master", BRIDGE, "up")
        for arguments in (
            ("address", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self._name(node), *arguments)

    def _remove(self) -> None:
        for node in self.addresses:
            subprocess.run(["ip", "netns", "delete", self._name(node)], capture_output=True, check=False)
            subprocess.run(["ip", "link", "delete", self._name(node)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)

    @staticmethod
    def _name(node: str) -> str:
        return f"pymq-{node}"

    def inside(self, node: str) -> list[str]:
        """Return the command that runs another one on the node's host."""
        return ["ip", "netns", "exec", self._name(node)]

    def separate(self, node: str) -> None:
        """No packet gets from the node to another one, or back. Clients reach all of them."""
        self._change_routes("add", node)

    def join(self, node: str) -> None:
        """Undo :meth:`separate`."""
        self._change_routes("delete", node)

    def _change_routes(self, change: str, node: str) -> None:
        for other in self.addresses:
            if other != node:
                for here, there in ((node, other), (other, node)):
                    _ip("-n", self._name(here), "route", change, "blackhole", f"{self.addresses[there]}/32")

    def unplug(self, node: str) -> None:
        """Pull the node's cable: it reaches nobody, and nobody is told so."""
        _ip("link", "set", self._name(node), "down")

    def plug(self, node: str) -> None:
        """Undo :meth:`unplug`."""
        _ip("link", "set", self._name(node), "up")
