"""Two administrators who change one entry at once: neither change is lost silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from pymq.client.admin import guarded
from pymq.client.admin.guarded import Changed, Seen
from pymq.errors import ConflictError, RefusedError
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import ResponseCode

Config = SubscriptionGroupConfig


class Broker:
    """A table with one group. ``meanwhile`` runs once, after the first reading of it."""

    def __init__(self, *, knows_versions: bool, meanwhile: Callable[[Broker], None] = lambda broker: None) -> None:
        self.entry: Config | None = Config(group_name="g")
        self.version = 7
        self.writes = 0
        self._knows_versions = knows_versions
        self._meanwhile = [meanwhile]

    def put(self, **changes: object) -> None:
        """Another administrator changes the group."""
        assert self.entry is not None
        self.entry, self.version = msgspec.structs.replace(self.entry, **changes), self.version + 1

    async def read(self) -> Seen[Config]:
        seen = Seen(self.entry, self.version if self._knows_versions else None)
        if self._meanwhile:
            self._meanwhile.pop()(self)
        return seen

    async def write(self, config: Config, version: int | None) -> dict[str, str]:
        if self._knows_versions and version != self.version:
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_LATEST, "another version")
        self.writes += 1
        self.entry, self.version = config, self.version + 1
        return {"pymqVersion": str(self.version)} if self._knows_versions else {}

    def change(self, **changes: int) -> Changed[Config]:
        def merge(before: Config | None) -> Config:
            return msgspec.structs.replace(before or Config(group_name="g"), **changes)

        return asyncio.run(guarded.change_entry("group 'g'", self.read, merge, self.write))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "RETRY_AFTER_S", 0.0)


@pytest.mark.parametrize("knows_versions", [True, False])
def test_a_change_alone_is_made(knows_versions: bool) -> None:
    broker = Broker(knows_versions=knows_versions)
    changed = broker.change(retry_max_times=3)
    assert (changed.before, changed.after) == (Config(group_name="g"), broker.entry)
    assert broker.writes == 1


def test_another_change_of_the_entry_is_not_undone() -> None:
    broker = Broker(knows_versions=True, meanwhile=lambda broker: broker.put(retry_queue_nums=4))
    with pytest.raises(ConflictError, match=r"someone else meanwhile \(retry_queue_nums 1 -> 4\)"):
        broker.change(retry_max_times=3)
    assert (broker.entry, broker.writes) == (Config(group_name="g", retry_queue_nums=4), 0)


def test_changes_of_other_entries_do_not_matter() -> None:
    def other(broker: Broker) -> None:
        broker.version += 1

    broker = Broker(knows_versions=True, meanwhile=other)
    assert broker.change(retry_max_times=3).after.retry_max_times == 3


def test_a_deletion_meanwhile_is_named() -> None:
    def delete(broker: Broker) -> None:
        broker.entry, broker.version = None, 8

    with pytest.raises(ConflictError, match="it was deleted"):
        Broker(knows_versions=True, meanwhile=delete).change(retry_max_times=3)


def test_without_versions_the_entry_is_read_again_before_and_after_the_write() -> None:
    broker = Broker(knows_versions=False, meanwhile=lambda broker: broker.put(retry_queue_nums=4))
    with pytest.raises(ConflictError, match="someone else meanwhile"):
        broker.change(retry_max_times=3)
    assert broker.writes == 0

    class Overwritten(Broker):
        async def write(self, config: Config, version: int | None) -> dict[str, str]:
            fields = await super().write(config, version)
            self.put(retry_max_times=9)
            return fields

    with pytest.raises(ConflictError, match=r"at the same time \(retry_max_times 3 -> 9\)"):
        Overwritten(knows_versions=False).change(retry_max_times=3)


def test_endless_changes_end_the_tries() -> None:
    class Busy(Broker):
        async def write(self, config: Config, version: int | None) -> dict[str, str]:
            self.version += 1
            return await super().write(config, version)

    with pytest.raises(ConflictError, match="20 tries failed"):
        Busy(knows_versions=True).change(retry_max_times=3)
