"""The files of ``pymq standalone --shards``: a configuration for each broker, with ports that stay over restarts."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pymq.errors import UsageError

PORTS_APART = 10  # of two brokers: each takes its port, the one before the last (fast) and the next one (HA)
HOST = "127.0.0.1"
RANDOM_PORT_MIN, RANDOM_PORT_MAX = 12_000, 32_000  # below those that systems give to connections
_TRIES_MAX = 200


class ShardBroker(NamedTuple):
    """One broker: node ``node`` of the Raft group ``shard``."""

    shard: str
    node: str
    port: int
    directory: Path

    @property
    def name(self) -> str:
        return f"{self.shard}-{self.node}"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def config_path(self) -> Path:
        """The file that ``pymq broker -c`` starts it with."""
        return self.directory / f"{self.name}.properties"

    @property
    def log_path(self) -> Path:
        return self.directory / f"{self.name}.log"


def plan_brokers(
    directory: Path, shards: int, replicas: int, port: int, is_free: Callable[[int], bool], rng: random.Random
) -> list[ShardBroker]:
    """Return the brokers, with the ports of their files where there are some, else with free ones.

    ``port``: where to look for free ones first, 0 for anywhere. Raises UsageError when the directory has files of
    other numbers of shards or replicas, or no port is free.
    """
    names = [(f"shard-{chr(ord('a') + shard)}", f"n{node}") for shard in range(shards) for node in range(replicas)]
    known = known_ports(directory)
    if known and sorted(known) != sorted(f"{shard}-{node}" for shard, node in names):
        raise UsageError(
            f"{directory} has {', '.join(sorted(known))}: give the numbers of shards and replicas that it has, or "
            "another --dir"
        )
    brokers: list[ShardBroker] = []
    for shard, node in names:
        name = f"{shard}-{node}"
        taken = {broker.port for broker in brokers}
        chosen = known[name] if known else _free_port(port, taken, is_free, rng)
        brokers.append(ShardBroker(shard, node, chosen, directory))
    return brokers


def known_ports(directory: Path) -> dict[str, int]:
    """Return the name of each broker that has a file there, and its port."""
    found = {}
    for path in sorted(directory.glob("shard-*-n*.properties")):
        match = re.search(r"^listenPort=(\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            found[path.stem] = int(match[1])
    return found


def _free_port(first: int, taken: set[int], is_free: Callable[[int], bool], rng: random.Random) -> int:
    for number in range(_TRIES_MAX):
        port = first + number * PORTS_APART if first else rng.randrange(RANDOM_PORT_MIN, RANDOM_PORT_MAX)
        is_apart = all(abs(port - other) >= PORTS_APART for other in taken)
        if port + 1 < 65536 and is_apart and all(map(is_free, (port - 2, port, port + 1))):
            return port
    raise UsageError(f"no free ports from {first} on: give another --port, or 0 for any free one")


def config_text(broker: ShardBroker, brokers: list[ShardBroker], namesrv: str, more: Mapping[str, str]) -> str:
    """Return the content of a broker's file. ``more``: further settings, which win."""
    peers = ";".join(f"{other.node}-{other.address}" for other in brokers if other.shard == broker.shard)
    settings = {
        "brokerName": broker.shard,
        "listenPort": str(broker.port),
        "namesrvAddr": namesrv,
        "storePathRootDir": str(broker.directory / broker.shard / broker.node),
        "enableDLegerCommitLog": "true",
        "dLegerGroup": broker.shard,
        "dLegerPeers": peers,
        "dLegerSelfId": broker.node,
        **more,
    }
    lines = [f"# {broker.node} of the Raft group {broker.shard}, made by pymq standalone --shards; starts alone with"]
    lines += [f"#     pymq broker -c {broker.config_path}", *(f"{key}={value}" for key, value in settings.items())]
    return "\n".join(lines) + "\n"
