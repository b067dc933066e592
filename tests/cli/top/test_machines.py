"""Workers of a machine under their sum, in the table of brokers."""

from __future__ import annotations

import pytest

from pymq.cli.top.machines import with_machines
from pymq.cli.top.plain import block, record
from pymq.cli.top.screen import Choice
from pymq.client.admin.machines import Place, place_table
from pymq.operations.replica_view import BrokerView
from pymq.operations.top.rates import Rates, Row
from pymq.operations.top.sample import BrokerSample, Sample


def sampled(at_ms: int, put: dict[str, float | None]) -> Sample:
    """Return a sample of brokers by name: those of ``m`` are its workers. None: one that does not answer."""
    found = []
    for port, (name, value) in enumerate(put.items()):
        host = "10.0.0.2" if ":" in name else "10.0.0.1"
        view = BrokerView("c", name.partition(":")[0], int(name.partition(":")[2] or 0), f"{host}:{port}")
        if value is None:
            found.append(BrokerSample(view, at_ms, error="no answer"))
            continue
        if name.startswith("m"):
            number = int(view.name.removeprefix("m-").replace("m", "0"))
            view.runtime = place_table(Place("m", number, 2))
        found.append(BrokerSample(view, at_ms, value, 2 * value, 100 * value, value / 100))
    return Sample(brokers=found)


def rates(first: dict[str, float | None], then: dict[str, float | None]) -> Rates:
    found = Rates()
    found.add(sampled(0, first))
    found.add(sampled(1000, then))
    return found


def shown(found: Rates, choice: Choice | None = None) -> list[tuple[str, float | None]]:
    return [(row["name"], row["in"]) for row in with_machines(found.brokers(), choice or Choice())]


NONE_YET: dict[str, float | None] = {"alone": 0, "m": 0, "m-1": 0, "z": 0}


def test_workers_stand_under_the_sum_of_their_machine_and_are_sorted_with_it() -> None:
    found = rates(NONE_YET, {"alone": 25, "m": 10, "m-1": 20, "z": 5})
    assert shown(found) == [("alone", 25), ("m", 30), ("  m", 10), ("  m-1", 20), ("z", 5)]
    assert shown(found, Choice(sort="in")) == [("m", 30), ("  m-1", 20), ("  m", 10), ("alone", 25), ("z", 5)]
    assert shown(found, Choice(contains="m-1")) == [("m-1", 20)]
    head: Row = with_machines(found.brokers(), Choice())[1]
    assert (head["out"], head["log_bytes"], head["disk"], head["trend"]) == (60, 3000, 20, [30])
    assert head["address"] == "10.0.0.1: 2 workers"


def test_slaves_on_another_machine_of_the_name_have_a_row_of_their_own() -> None:
    put: dict[str, float | None] = {"m-0": 10, "m-1": 20, "m-0:1": 1, "m-1:1": 2}
    found = rates(dict.fromkeys(put, 0), put)
    names = [name for name, _ in shown(found)]
    assert names == ["m", "  m-0", "  m-1", "m:1", "  m-0:1", "  m-1:1"]


def test_a_worker_that_does_not_answer_stays_with_its_machine() -> None:
    found = rates(NONE_YET, {"m": 10, "m-1": None})
    assert shown(found) == [("m", 10), ("  m", 10), ("  m-1", None)]
    assert with_machines(found.brokers(), Choice())[0]["error"] == ""
    found.add(sampled(2000, {"m": None, "m-1": None}))
    assert with_machines(found.brokers(), Choice())[0]["error"] == "no answer"


@pytest.mark.parametrize("width", [40, 120])
def test_json_has_a_row_for_each_broker_and_a_block_the_sums(width: int) -> None:
    found = rates(NONE_YET, {"alone": 25, "m": 10, "m-1": 20, "z": 5})
    rows = record(found, [Choice()], "now")["cluster"]
    places = [(row["name"], row["machine"], row["worker"]) for row in rows]
    assert places == [("alone", None, None), ("m", "m", 0), ("m-1", "m", 1), ("z", None, None)]
    lines = block(found, [Choice()], "now", width, "_#")
    assert [line.split()[0] for line in lines[4:-1]] == ["alone", "m", "m", "m-1", "z"]
    assert all(len(line) <= width for line in lines[3:])
