"""The load on a name server is what it says it is."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.name_server import NameServerLoad, measure_name_server


def test_every_look_up_of_a_small_load_finds_its_route(tmp_path: Path) -> None:
    load = NameServerLoad(topics=20, brokers=2, clients=300, seconds=1.0)
    figures = measure_name_server([sys.executable, "-m", "pymq"], tmp_path, load)
    values = {figure.name.removeprefix("name server "): figure.value for figure in figures}
    assert values["look-up p50"] <= values["look-up p99"] <= values["look-up max"]
    assert values["memory"] > 0
