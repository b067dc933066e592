"""RuntimeSettings: versions, changes that are kept and taken back, and what a restart finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pymq.broker.metadata.table_saver import TableSaver
from pymq.config import BrokerConfig, load_broker_config
from pymq.config.runtime import BusyError, RuntimeSettings, StaleError
from pymq.errors import ConfigError, StoreError, StoreUnavailableError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles

PATH = "/config/runtimeSettings.json"


class Restarts:
    """Starts of a server with the same files."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.makedirs("/config")

    def start(self, **flags: str) -> RuntimeSettings:
        config = load_broker_config(None, flags)
        settings = RuntimeSettings(config, lambda: 7, TableSaver(JsonTable(self.files, PATH, "settings")))
        settings.load()
        return settings


def make(settings: RuntimeSettings, text: str, **options: Any) -> dict[str, str]:
    """Make a change as a handler does; return what changed."""
    change = settings.plan(text.encode(), **options)
    outcome: list[StoreError | OSError | None] = [None]
    if change.kept is not None:
        outcome.clear()
        settings.save(change, outcome.append)
    if outcome[0] is not None:
        raise outcome[0]
    return settings.apply(change)


def value(settings: RuntimeSettings, key: str) -> tuple[object, str]:
    return settings.config.get(key), settings.config.origin(key)


def test_a_change_ends_with_the_process_unless_it_is_kept() -> None:
    restarts = Restarts()
    settings = restarts.start(maxTopics="30")
    assert make(settings, "maxTopics=40\nmaxGroups=50") == {"maxTopics": "40", "maxGroups": "50"}
    assert value(settings, "maxTopics") == (40, "runtime")
    settings = restarts.start(maxTopics="30")
    assert value(settings, "maxTopics") == (30, "flag") and value(settings, "maxGroups") == (10_000, "default")
    assert make(settings, "maxTopics=41", is_kept=True) == {"maxTopics": "41"}
    assert value(restarts.start(maxTopics="30"), "maxTopics") == (41, "kept")


def test_a_kept_value_may_equal_the_one_in_use() -> None:
    restarts = Restarts()
    assert make(restarts.start(maxTopics="40"), "maxTopics=40", is_kept=True) == {}
    assert value(restarts.start(), "maxTopics") == (40, "kept")


def test_a_change_is_taken_back_now_and_at_the_next_start() -> None:
    restarts = Restarts()
    settings = restarts.start(maxTopics="30")
    make(settings, "maxTopics=41", is_kept=True)
    make(settings, "maxTopics=42")
    settings = restarts.start(maxTopics="30")
    assert value(settings, "maxTopics") == (41, "kept")
    assert make(settings, "", forget="maxTopics; maxGroups") == {"maxTopics": "30"}
    assert value(settings, "maxTopics") == (30, "flag") and value(settings, "maxGroups") == (10_000, "default")
    assert value(restarts.start(), "maxTopics") == (10_000, "default")


def test_what_can_not_be_saved_does_not_take_effect() -> None:
    settings = Restarts().start()

    class Full(TableSaver):
        def save_soon(self, make: Callable[[], dict[str, Any]], saved: Any) -> None:
            saved(StoreUnavailableError("the disk is full"))

    files = MemoryFiles()
    files.makedirs("/config")
    settings._keeper = Full(JsonTable(files, PATH))
    with pytest.raises(StoreUnavailableError):
        make(settings, "maxTopics=40", is_kept=True)
    assert value(settings, "maxTopics") == (10_000, "default")
    # The failed change is not in the next one's file.
    settings._keeper = TableSaver(table := JsonTable(files, PATH))
    make(settings, "maxGroups=50", is_kept=True)
    assert table.load() == {"settings": {"maxGroups": "50"}}


def test_a_server_without_a_place_refuses_to_keep() -> None:
    settings = RuntimeSettings(BrokerConfig(), lambda: 7, no_keeper_text="give it a file")
    with pytest.raises(ConfigError, match="can't be kept: give it a file"):
        settings.plan(b"maxTopics=40", is_kept=True)


def test_a_change_after_another_ones_is_refused_when_it_names_the_version_it_saw() -> None:
    settings = Restarts().start()
    seen = settings.version
    make(settings, "maxTopics=40", version=seen)
    with pytest.raises(StaleError, match="changed by another request"):
        settings.plan(b"maxTopics=50", version=seen)
    with pytest.raises(StaleError):
        settings.plan(b"maxTopics=50", version="no JSON")
    make(settings, "maxTopics=40", version=json.dumps(json.loads(settings.version), indent=1))
    assert json.loads(settings.version)["counter"] == 1  # nothing changed
    make(settings, "maxTopics=50")


def test_one_change_is_saved_at_a_time() -> None:
    settings = Restarts().start()
    assert settings._keeper is not None
    settings._keeper.is_busy = True
    with pytest.raises(BusyError, match="try again"):
        settings.plan(b"maxTopics=40")


def test_the_checks_of_the_server_come_before_the_change() -> None:
    def refuse(values: object) -> None:
        raise ConfigError(f"not {values}")

    settings = RuntimeSettings(BrokerConfig(), lambda: 7, check=refuse)
    with pytest.raises(ConfigError, match="'maxTopics': '40'"):
        settings.plan(b"maxTopics=40")
    settings.config.change_at_runtime({"maxTopics": "50"})
    with pytest.raises(ConfigError, match="'maxTopics': '10000'"):
        settings.plan(b"", forget="maxTopics")


def test_origins_are_those_of_the_keys_without_their_default() -> None:
    settings = Restarts().start(maxTopics="30")
    make(settings, "maxGroups=50")
    assert json.loads(settings.origins()) == {"maxTopics": "flag", "maxGroups": "runtime"}


def test_kept_values_that_this_version_can_not_change_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    restarts = Restarts()
    JsonTable(restarts.files, PATH).save({"settings": {"maxTopics": "40", "listenPort": "1", "gone": "2"}})
    settings = restarts.start()
    assert value(settings, "maxTopics") == (40, "kept") and value(settings, "listenPort") == (10_911, "default")
    assert "listenPort=1 has no effect" in caplog.text and "gone=2 has no effect" in caplog.text


def test_kept_values_that_conflict_with_the_file_stop_the_start() -> None:
    restarts = Restarts()
    make(restarts.start(), "inSyncReplicas=3\nminInSyncReplicas=3", is_kept=True)
    with pytest.raises(ConfigError, match=r"kept at run time \(minInSyncReplicas, .*\) don't fit|kept at run time"):
        JsonTable(restarts.files, PATH).save({"settings": {"minInSyncReplicas": "3"}})
        restarts.start()


@pytest.mark.parametrize("forget", ["listenPort", "nope", "maxTopics"])
def test_only_changeable_keys_are_taken_back_and_none_that_is_set(forget: str) -> None:
    with pytest.raises(ConfigError):
        Restarts().start().plan(b"maxTopics=40", forget=forget)
