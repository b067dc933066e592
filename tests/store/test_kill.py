"""After ``kill -9`` of a real process every acknowledged message is on the real disk, in order, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pymq.store.disk.fs import RealFiles
from tests.store.support import found_by_key, make_store, read_all

ROUNDS = 6
CHILD = """
import sys
from pymq.clock import SystemClock
from pymq.store.disk.fs import RealFiles
from tests.store.support import make_store, stage
store = make_store(RealFiles(), SystemClock(), sys.argv[1], segment_size_bytes=1 << 14)
store.open()
number = int(sys.argv[2])
while True:
    for queue_id in (0, 1, 0):
        stage(store, "T", queue_id, b"%d" % number, keys=f"k{number}")
        number += 1
    store.commit()
    if number % 7 == 0:
        store.tick()
    if number % 50 == 0:
        store.sync()
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_process_loses_no_acknowledged_message(tmp_path: Path) -> None:
    root = str(tmp_path / "store")
    number, answered, seen = 0, 0, 0
    for round_number in range(ROUNDS):
        command = [sys.executable, "-c", CHILD, root, str(number)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
        assert child.stdout is not None
        for _ in range(20 + 37 * round_number):
            answered = int(child.stdout.readline())
        child.kill()
        rest = child.stdout.read().split()
        child.stdout.close()
        child.wait()
        answered = int(rest[-1]) if rest else answered
        store = make_store(RealFiles(), root=root, segment_size_bytes=1 << 14)
        report = store.open()
        assert not report.clean  # the child wrote its abort file
        assert report.damaged == []
        bodies = [[int(m.body) for m in read_all(store, "T", q)] for q in (0, 1)]
        found = sorted(bodies[0] + bodies[1])
        # Unacknowledged messages may be there too, but only as whole commits.
        assert found == list(range(len(found)))
        assert answered <= len(found) <= answered + 3
        assert bodies[0] == sorted(bodies[0])
        for n in (0, len(found) // 2, len(found) - 1):
            assert found_by_key(store, "T", f"k{n}") == [b"%d" % n]
        seen += 1
        number = len(found)
        if round_number % 2:
            store.close()
        else:
            store._release()
    assert seen == ROUNDS
