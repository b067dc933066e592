"""Which brokers a machine's name stands for: by what they say, not by their names alone."""

from __future__ import annotations

import pytest

from pymq.client.admin.machines import Place, candidates, place_of, place_table, workers_of


def worker(number: int, count: int = 3, machine: str = "m") -> dict[str, str]:
    return {"brokerVersion": "5"} | place_table(Place(machine, number, count))


def test_a_place_is_read_as_it_is_said() -> None:
    assert place_of(worker(2)) == Place("m", 2, 3)


@pytest.mark.parametrize(
    "table",
    [
        None,
        {},
        {"pymqMachine": ""},
        {"pymqMachine": "m"},
        worker(0) | {"pymqWorker": "-1"},
        worker(0) | {"pymqWorkers": "9999"},
        worker(0) | {"pymqWorker": "x" * 100_000},
    ],
)
def test_what_no_worker_says_is_no_place(table: dict[str, str] | None) -> None:
    assert place_of(table) is None


@pytest.mark.parametrize(
    ("name", "registered", "found"),
    [
        ("m", ["m-0", "m-1", "n-0", "m-x", "m-01", "m--1", "mm-1"], ["m-0", "m-1"]),
        ("m", ["m", "m-1"], ["m", "m-1"]),
        ("m", ["m", "n"], ["m"]),
        ("m", ["n"], []),
        ("m-1", ["m", "m-1"], ["m-1"]),
        ("m-0", ["m", "m-1"], ["m"]),
        ("m-0", ["m-0", "m-1"], ["m-0"]),
        ("m", ["m-²", "m-" + "9" * 5000], []),
    ],
)
def test_candidates_are_brokers_whose_names_would_fit(name: str, registered: list[str], found: list[str]) -> None:
    assert candidates(name, registered) == found


def test_a_machine_is_all_its_workers_by_number() -> None:
    tables = {"m-10": worker(10, 11), "m-2": worker(2, 11), "m-0": worker(0, 11)}
    assert workers_of("m", tables) == ["m-0", "m-2", "m-10"]


def test_a_worker_0_that_kept_its_name_is_there_alone_under_its_number() -> None:
    tables = {"m": worker(0), "m-1": worker(1)}
    assert workers_of("m", tables) == ["m", "m-1"]
    assert workers_of("m-0", {"m": worker(0)}) == ["m"]
    assert workers_of("m-0", {"m": {}}) == []


def test_brokers_that_only_have_such_names_are_not_taken_for_workers() -> None:
    assert workers_of("m", {"m": {}, "m-1": {}}) == ["m"]
    assert workers_of("m", {"m-1": {}}) == []
    assert workers_of("m", {"m": worker(0), "m-1": worker(1), "m-7": {}}) == ["m", "m-1"]
    assert workers_of("m-1", {"m-1": worker(1)}) == ["m-1"]


def test_a_worker_that_does_not_answer_counts_by_its_name() -> None:
    assert workers_of("m", {"m-0": worker(0), "m-1": None, "m-3": None}) == ["m-0", "m-1"]
    assert workers_of("m", {"m": None, "m-1": worker(1)}) == ["m", "m-1"]
    assert workers_of("m", {"m": None, "m-1": None}) == ["m"]
