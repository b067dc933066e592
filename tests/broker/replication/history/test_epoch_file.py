"""EpochFile: the epochs that a log claims after clean and unclean stops."""

from __future__ import annotations

import errno
import random

import pytest

from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.errors import StoreError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles

PATH = "/data/config/epochHistory.json"
A, B, C = EpochEntry(1, 0, "a"), EpochEntry(2, 100, "b"), EpochEntry(2, 200, "c")


class Directory:
    """A broker's directory, and the epoch files of its successive lives."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.makedirs("/data/config")
        self.rng = random.Random(1)

    def epoch_file(self, log_end: int) -> EpochFile:
        epoch_file = EpochFile(JsonTable(self.files, PATH), self.rng)
        epoch_file.load(log_end)
        return epoch_file

    def master(self, log_end: int, *, was_clean: bool = True, begins: bool = False) -> EpochFile:
        epoch_file = self.epoch_file(log_end)
        epoch_file.open_as_master(log_end, was_clean=was_clean, begins_epoch=begins)
        return epoch_file


def full_disk(call: str, path: str) -> None:
    if call == "pwrite":
        raise OSError(errno.ENOSPC, "No space left on device", path)


def shape(history: EpochHistory) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start) for entry in history.entries]


def test_a_first_master_begins_an_epoch_at_its_logs_end() -> None:
    directory = Directory()
    assert shape(directory.master(70).history) == [(1, 70)]
    assert shape(directory.epoch_file(70).history) == [(1, 70)]


def test_the_epoch_goes_on_after_a_clean_stop() -> None:
    directory = Directory()
    first = directory.master(0)
    first.close(50)
    assert directory.master(50).history == first.history


def test_an_unclean_stop_begins_another_entry_of_the_same_epoch() -> None:
    directory = Directory()
    directory.master(0)
    second = directory.master(50, was_clean=False)
    assert shape(second.history) == [(1, 0), (1, 50)]
    second.close(60)
    assert shape(directory.master(60).history) == [(1, 0), (1, 50)]


def test_a_promoted_slave_has_the_next_epoch() -> None:
    directory = Directory()
    directory.master(0).close(50)
    assert shape(directory.master(50, begins=True).history) == [(1, 0), (2, 50)]


@pytest.mark.parametrize("log_end", [40, 60])
def test_a_log_changed_by_another_program_begins_another_entry(log_end: int) -> None:
    directory = Directory()
    directory.master(0).close(50)
    assert shape(directory.master(log_end).history) == [(1, 0), (1, log_end)]


def test_an_unrecorded_clean_stop_begins_another_entry() -> None:
    directory = Directory()
    directory.master(0)
    assert shape(directory.master(60).history) == [(1, 0), (1, 60)]


def test_a_slave_claims_what_lies_in_its_log() -> None:
    directory = Directory()
    epoch_file = directory.epoch_file(100)
    epoch_file.follow(EpochHistory((A, B, C)), 100)
    assert epoch_file.history.entries == (A, B)
    assert directory.epoch_file(100).history.entries == (A, B)
    assert epoch_file.next_start == 200


def test_an_epoch_is_claimed_when_the_log_reaches_it() -> None:
    directory = Directory()
    epoch_file = directory.epoch_file(50)
    epoch_file.follow(EpochHistory((A, B, C)), 50)
    assert epoch_file.next_start == 100
    epoch_file.reach(100)
    assert (epoch_file.history.entries, epoch_file.next_start) == ((A, B), 200)
    assert directory.epoch_file(150).history.entries == (A, B)
    epoch_file.reach(200)
    assert (epoch_file.history.entries, epoch_file.next_start) == ((A, B, C), None)  # type: ignore[comparison-overlap]


def test_an_epoch_past_the_logs_end_is_forgotten() -> None:
    """A power loss took the bytes, and the file that claims them was on the disk already."""
    directory = Directory()
    directory.epoch_file(200).follow(EpochHistory((A, B, C)), 200)
    assert directory.epoch_file(199).history.entries == (A, B)


def test_a_slave_of_a_master_without_epoch_history_claims_nothing() -> None:
    directory = Directory()
    directory.master(0)
    epoch_file = directory.epoch_file(50)
    epoch_file.follow(EpochHistory(), 50)
    assert directory.epoch_file(50).history == EpochHistory()


def test_the_claimed_epochs_change_with_the_master() -> None:
    directory = Directory()
    epoch_file = directory.epoch_file(150)
    epoch_file.follow(EpochHistory((A, B)), 150)
    epoch_file.follow(EpochHistory((A, EpochEntry(3, 160, "d"))), 90)
    assert directory.epoch_file(150).history.entries == (A,)


def test_a_failing_disk_changes_nothing() -> None:
    directory = Directory()
    epoch_file = directory.epoch_file(50)
    epoch_file.follow(EpochHistory((A, B)), 50)
    directory.files.fault = full_disk
    with pytest.raises(StoreError, match=r"epochHistory\.json"):
        epoch_file.reach(100)
    assert (epoch_file.history.entries, epoch_file.next_start) == ((A,), 100)


def test_a_file_of_another_shape_is_refused() -> None:
    directory = Directory()
    JsonTable(directory.files, PATH).save({"epochs": [{"epoch": "one"}]})
    with pytest.raises(StoreError, match=r"epochHistory\.json"):
        directory.epoch_file(0)
