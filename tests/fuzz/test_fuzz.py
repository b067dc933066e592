"""A small, always equal slice of scripts/fuzz; and that the fuzzer finds what is planted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pymq.model import pop, record
from pymq.wire import command
from tests.fuzz.running import INPUT_BYTES_MAX, Fault, load_targets, run_all, run_some
from tests.fuzz.targets import Target

TARGETS = load_targets(guided=False)
COUNT = 150  # inputs of each target: scripts/fuzz gives them millions
SEED = 16


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Tables log each entry that they leave out."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def shown(faults: list[Fault]) -> list[tuple[str, str, bytes]]:
    return [(fault.place, fault.error, fault.raw[:200]) for fault in faults]


@pytest.mark.parametrize("name", TARGETS)
def test_a_slice_finds_no_undocumented_error(name: str) -> None:
    outcome = run_some(TARGETS[name], COUNT, SEED)
    assert shown(outcome.faults) == []
    assert outcome.inputs == COUNT


def test_every_target_has_seeds_that_it_reads() -> None:
    """Without them mutations only knock at the door. The server takes no first flight of TLS alone."""
    for target in TARGETS.values():
        read = 0
        for raw in target.seeds():
            assert len(raw) <= INPUT_BYTES_MAX, target.name
            try:
                target.run(raw)
                read += 1
            except target.documented:
                pass
        assert read or target.name == "tls", target.name


@pytest.mark.parametrize(
    ("module", "name", "value", "target"),
    [
        (record, "BATCH_ENTRY_OVERHEAD_BYTES", 0, "batch"),  # an entry that is cut short is read all the same
        (command, "EXT_FIELD_COUNT_MAX", "many", "binary-header"),
        (pop, "RECEIPT_PARTS_MIN", 1, "texts"),  # a receipt without its last parts
    ],
)
def test_a_planted_bug_is_found(
    module: object, name: str, value: object, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    faults = run_some(TARGETS[target], 1000, SEED).faults
    assert faults
    assert all(fault.target == target and fault.raw for fault in faults)


def test_a_process_that_dies_is_a_fault() -> None:
    def die(raw: bytes) -> None:
        raise SystemExit(3)

    dying = Target("dying", die, (), lambda: [b"x"])
    (outcome,) = run_all([dying], 1, SEED, guided=False, processes=1)
    assert [fault.place for fault in outcome.faults] == ["process"]
    assert outcome.inputs == 1
