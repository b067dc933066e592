"""Every key of a Raft group: RocketMQ's own names of its DLedger mode, spelled as there."""

# One key per row reads best as a table.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

from pymq.config.base import Config, setting

ENABLED_KEY, GROUP_KEY, PEERS_KEY = "enableDLegerCommitLog", "dLegerGroup", "dLegerPeers"
SELF_KEY, PREFERRED_KEY = "dLegerSelfId", "preferredLeaderId"
ELECTION_TIMEOUT_KEY = "raftElectionTimeout"
# Pauses of a busy machine are longer than anything below the least value; with the greatest a group stands still for 10
# to 20 s when its leader dies.
ELECTION_TIMEOUT_MIN_MS, ELECTION_TIMEOUT_DEFAULT_MS, ELECTION_TIMEOUT_MAX_MS = 500, 500, 10_000
SECRET_FILE_KEY = "raftSecretFile"  # noqa: S105 - its name


@dataclass
class RaftConfig(Config):
    """The keys of a broker that belongs to a Raft group. :mod:`pymq.broker.raft.members` reads them."""

    # fmt: off
    raft_enabled: bool = setting(ENABLED_KEY, False, "The broker belongs to a Raft group: its members elect their master, and a send is answered once a majority has it.")
    raft_group: str = setting(GROUP_KEY, "", "Name of the Raft group, the same as brokerName; empty: brokerName.")
    raft_peers: str = setting(PEERS_KEY, "", "Members of the group with their addresses, the same text on each: n0-host:port;n1-host:port;n2-host:port.")
    raft_self_id: str = setting(SELF_KEY, "", "This broker's id in dLegerPeers, for example n0. As a follower it has the number behind the n plus 1 as brokerId.")
    preferred_leader: str = setting(PREFERRED_KEY, "", "Members that lead the group when they can, ids separated by `;`; empty: no preference.")
    raft_secret_file: str = setting(SECRET_FILE_KEY, "", "File with the secret by which the members prove each other, the same on each; empty: one in `~/.pymq/raft`, for members on loopback alone.")
    raft_election_timeout_ms: int = setting(ELECTION_TIMEOUT_KEY, ELECTION_TIMEOUT_DEFAULT_MS, "How long the members hear no leader, in ms, before they elect another one, the same on each; longer where machines or the network pause.", minimum=ELECTION_TIMEOUT_MIN_MS, maximum=ELECTION_TIMEOUT_MAX_MS)
    # fmt: on
