"""Damages derived files of small stores, at random and every bit of units: no intact message is silently missing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import pytest

from tests.crash.damage import ODD_DAMAGERS, DamageTally, Origin, check_queues, origins, search
from tests.store.support import ROOT

DAMAGE_COUNT = int(os.environ.get("PYMQ_DAMAGES", "30"))
UNIT_BITS = 160
# Found at random: a bit of a unit, among units of deleted messages, led beyond the log, and `repair` took
# the units behind it for lost messages.
# A file of another queue led below the log's begin and passed for one of deleted messages: 303142.
# One bit of the index's time in the checkpoint made it negative for ever: 302846.
# The only unit of a queue, in a file or directory with a wrong name, made `repair` give up its record: 305544, 307796.
# A bit of a queue's only unit led beyond the log, and `repair` took its deleted message for a lost one: 304724.
FOUND_SEEDS = (100_040, 300_119, 303_142, 302_846, 304_724, 305_544, 307_796)


@pytest.fixture(autouse=True)
def _without_log_records(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


@pytest.fixture(scope="module")
def sound() -> list[Origin]:
    return origins()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_random_damage_hides_an_intact_message(sound: list[Origin], tell: Callable[[object], None]) -> None:
    tally = DamageTally()
    search(sound, range(DAMAGE_COUNT), tally)
    assert tally.count == DAMAGE_COUNT
    tell(tally)


@pytest.mark.parametrize("seed", FOUND_SEEDS)
def test_a_damage_that_once_did_harm_does_none(sound: list[Origin], seed: int) -> None:
    search(sound, range(seed, seed + 1), DamageTally(), offline_every=1)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ODD_DAMAGERS)
def test_what_is_no_file_is_named_and_the_rest_is_served(sound: list[Origin], kind: str) -> None:
    tally, count = DamageTally(), max(DAMAGE_COUNT // 6, 5)
    search(sound, range(count), tally, offline_every=1, damagers={kind: ODD_DAMAGERS[kind]})
    assert tally.count == tally.repaired == count


@pytest.mark.slow
@pytest.mark.parametrize("unit", [0, 7, 19])
@pytest.mark.parametrize("name", ["stopped", "without sums"])
def test_no_bit_of_a_unit_hides_a_message(sound: list[Origin], name: str, unit: int) -> None:
    origin = next(origin for origin in sound if origin.name == name)
    path = f"{ROOT}/consumequeue/T1/0/{400:020d}"
    for bit in range(UNIT_BITS):
        content = bytearray(origin.image.files[path])
        content[unit * 20 + bit // 8] ^= 1 << bit % 8
        check_queues(origin, origin.image._replace(files={**origin.image.files, path: bytes(content)}))
