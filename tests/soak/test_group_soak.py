"""A short group soak: ``scripts/soak`` runs it for 5 minutes, and kills orderly members too."""

from __future__ import annotations

import asyncio

import pytest

from pymq.testing.standalone import StandaloneProcess
from tests.soak.group_soak import GroupSoak, SoakPlan
from tests.soak.ledger import Ledger


@pytest.mark.slow
def test_all_is_consumed_while_members_come_go_and_die() -> None:
    plan = SoakPlan(2, members=9, queues=12, pause_s=0.15, seed=20, kills_in_order=False, invisible_ms=1_000)
    with StandaloneProcess() as servers:
        result = asyncio.run(GroupSoak(servers.namesrv, plan).run())
    assert not result.faults, "\n".join([*result.lines(), *result.faults])
    assert result.sent >= 12 and all(one.changes >= 1 for one in result.ledgers)


def test_a_ledger_finds_what_must_not_happen() -> None:
    ledger = Ledger("g", in_order=True)
    ledger.begin("a", 0, 0)
    ledger.begin("b", 0, 1)
    ledger.end(0, 1, done=True)
    ledger.begin("b", 0, 3)
    ledger.end(0, 3, done=True)
    ledger.begin("b", 0, 1)  # a repetition is no fault
    ledger.end(0, 1, done=True)
    assert ledger.faults == [
        "queue 0: b handles 1 while a handles another message",
        "queue 0: b handles 3 after 1",
    ]
    assert ledger.doubles == 1
