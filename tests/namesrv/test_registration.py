"""A registration's connections: which one owns it, and which may inherit it."""

from __future__ import annotations

from pymq.model.tables import DataVersion
from pymq.namesrv.registration import LiveBroker, Standby
from tests.namesrv.support import identity


def test_a_broker_knows_its_connections() -> None:
    standby = Standby("second", 0)
    broker = LiveBroker(identity(), "", DataVersion(), "first", 1000, 0, [], standbys=[standby])
    assert broker.is_of("first") and broker.is_of("second") and not broker.is_of("third")
    assert broker.standby("second") is standby
    assert broker.standby("first") is None


def test_a_role_reads_as_operators_say_it() -> None:
    assert (identity().role, identity(broker_id=3).role) == ("master", "slave 3")
