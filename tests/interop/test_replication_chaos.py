"""Faults under load from the Java client: brokers killed, stopped and promoted, connections broken; no loss.

``scripts/chaos`` does the same for longer.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.chaos.faults import FAIL_OVER, HAND_OVER, KILL_SLAVE, STOP_MASTER
from tests.chaos.load import JAVA_PROGRAM, JavaSending
from tests.chaos.proxy import KINDS
from tests.chaos.rounds import ChaosRounds
from tests.interop.support.running import compiled_program
from tests.interop.support.tools import require

EVENTS = (STOP_MASTER, FAIL_OVER, KILL_SLAVE, HAND_OVER)
SEED = int(os.environ.get("PYMQ_CHAOS_SEED", "1789"))
STOPPED_S_MAX = 2.0
ACKNOWLEDGED_MIN = 500


def test_no_acknowledged_message_is_lost_under_faults(tmp_path: Path) -> None:
    require("java", "javac", "mvn")
    compiled_program(JAVA_PROGRAM)  # import now: the proxy would block meanwhile
    print(f"seed {SEED}")
    rounds = ChaosRounds(
        tmp_path,
        SEED,
        open_load=lambda namesrv: JavaSending(namesrv, tmp_path / "java"),
        events=EVENTS,
        stopped_s_max=STOPPED_S_MAX,
        report=print,
    )
    outcome = asyncio.run(rounds.run(len(EVENTS)))
    print(outcome)
    assert all(outcome.faults[event] == 1 for event in EVENTS)
    assert sum(outcome.faults[f"link: {kind}"] for kind in KINDS) > 0, "no connection felt a fault"
    assert outcome.sends["ok"] >= ACKNOWLEDGED_MIN and outcome.seen_count >= ACKNOWLEDGED_MIN
    assert outcome.stored_count >= outcome.sends["ok"]
