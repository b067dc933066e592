"""``pymq broker --group --node --peers`` in the keys of RocketMQ's DLedger mode."""

from __future__ import annotations

import pytest

from pymq.cli.broker.command import raft_flags
from pymq.errors import ConfigError


def test_flags_become_keys_with_the_port_and_the_id_that_follow() -> None:
    assert raft_flags("shard-a", "n1", "n0=10.0.0.1:10911,n1=10.0.0.2:10921") == {
        "enableDLegerCommitLog": True,
        "dLegerGroup": "shard-a",
        "dLegerSelfId": "n1",
        "dLegerPeers": "n0-10.0.0.1:10911;n1-10.0.0.2:10921",
        "listenPort": 10921,
        "brokerId": 2,
    }


def test_an_own_id_that_no_peer_has_is_left_to_the_check_of_the_settings() -> None:
    assert "listenPort" not in raft_flags("shard-a", "n7", "n0=10.0.0.1:1,n1=10.0.0.2:1")


def test_peers_of_another_form_are_refused() -> None:
    with pytest.raises(ConfigError, match="write n0=HOST:PORT"):
        raft_flags("shard-a", "n0", "n0=10.0.0.1:1,n1")
