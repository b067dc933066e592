"""A slice of scripts/kill-streams --mode files: reads of a directory that is written, and of copies after kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.kills.files import attack, fault


@pytest.mark.slow
def test_every_message_is_there_once(tmp_path: Path) -> None:
    assert attack(tmp_path, seed=3, points=2) == ""


def test_the_attack_sees_faults() -> None:
    assert fault([0, 3, 1, 2], 3) == ""
    assert fault([3, 0, 1, 2], 3) == "queue 0 is out of order"
    assert fault([0, 1, 1], 1) == "messages are missing or doubled"
    assert fault([0, 2], 1) == "messages are missing or doubled"
    assert fault([0, 1], 2) == "3 messages were committed, 2 are there"
