"""What tells workers apart: names, folders, ports that don't collide, memory, and peers on other machines."""

from __future__ import annotations

from itertools import combinations

import pytest

from pymq.config import BrokerConfig, load_broker_config
from pymq.config.values import WORKER_COUNT_MAX
from pymq.config.workers import worker_count
from pymq.errors import ConfigError
from pymq.store.disk.workers_file import planned_layout
from pymq.workers.settings import (
    MEMORY_BUDGET_MIN_BYTES,
    PORTS_APART,
    given_settings,
    memory_budget_bytes,
    worker_settings,
)

GIB = 1024**3


def config_of(**settings: str) -> BrokerConfig:
    return load_broker_config(None, {"listenPort": "10911"} | settings)


def settings_of(config: BrokerConfig, count: int = 3) -> list[dict[str, str]]:
    layout = planned_layout(None, config.broker_name, count)
    return [worker_settings(config, layout, worker, "/data", 16 * GIB, count) for worker in layout.active]


def test_each_worker_has_its_name_folder_and_ports() -> None:
    rows = settings_of(config_of(haListenPort="12000", fastListenPort="13000", auditLogDir="/audit"))
    assert [row["brokerName"] for row in rows] == ["broker-a-0", "broker-a-1", "broker-a-2"]
    assert [row["storePathRootDir"] for row in rows] == ["/data/worker-0", "/data/worker-1", "/data/worker-2"]
    assert [row["listenPort"] for row in rows] == ["10911", "10921", "10931"]
    assert [row["haListenPort"] for row in rows] == ["12000", "12010", "12020"]
    assert [row["fastListenPort"] for row in rows] == ["13000", "13010", "13020"]
    assert [row["auditLogDir"] for row in rows] == ["/audit/broker-a-0", "/audit/broker-a-1", "/audit/broker-a-2"]
    assert {(row["workerMachine"], row["workerCount"], row["workers"]) for row in rows} == {("broker-a", "3", "1")}


def test_workers_above_the_number_take_no_messages_any_more() -> None:
    config = config_of()
    layout = planned_layout(planned_layout(None, "broker-a", 3), "broker-a", 2)
    rows = [worker_settings(config, layout, worker, "/data", GIB, 2) for worker in layout.active]
    assert [row.get("brokerPermission") for row in rows] == [None, None, "4"]
    assert {row["workerCount"] for row in rows} == {"2"}


def test_a_worker_loads_its_settings() -> None:
    row = settings_of(config_of(), 4)[3]
    config = load_broker_config(None, row)
    assert config.is_worker and (config.worker_machine, config.worker_number, config.worker_count) == ("broker-a", 3, 4)
    assert not config_of().is_worker


def test_no_two_workers_take_one_port() -> None:
    taken = [{port, port - 2, port + 1} for port in (number * PORTS_APART for number in range(WORKER_COUNT_MAX))]
    assert not any(one & other for one, other in combinations(taken, 2))


def test_ports_that_are_found_at_the_start_stay_so() -> None:
    rows = settings_of(config_of(listenPort="0", fastListenPort="-1"))
    assert all("listenPort" not in row and "fastListenPort" not in row and "haListenPort" not in row for row in rows)


def test_a_port_above_the_last_one_is_refused() -> None:
    config = config_of(listenPort="65515")
    assert settings_of(config)[2]["listenPort"] == "65535"
    with pytest.raises(ConfigError, match=r"listenPort=65516 leaves no port for worker 2, .* give a port below 65516"):
        settings_of(config_of(listenPort="65516"))


def test_slaves_and_members_follow_the_same_worker_of_the_other_machine() -> None:
    slave = settings_of(config_of(brokerId="1", haMasterAddress="10.0.0.1:10912"))
    assert [row["haMasterAddress"] for row in slave] == ["10.0.0.1:10912", "10.0.0.1:10922", "10.0.0.1:10932"]
    peers = "n0-10.0.0.1:10911;n1-[::1]:10911;n2-10.0.0.3:11911"
    member = settings_of(
        config_of(brokerName="s", enableDLegerCommitLog="true", dLegerPeers=peers, dLegerSelfId="n0"), 2
    )
    assert [row["dLegerGroup"] for row in member] == ["s-0", "s-1"]
    assert [row["dLegerPeers"] for row in member] == [peers, "n0-10.0.0.1:10921;n1-[::1]:10921;n2-10.0.0.3:11921"]


def test_all_memory_budgets_together_stay_within_the_share_of_the_machine() -> None:
    assert memory_budget_bytes(GIB, 64 * GIB, 4) == GIB
    assert memory_budget_bytes(GIB, 8 * GIB, 4) == GIB // 2
    assert memory_budget_bytes(GIB, 8 * GIB, 64) == MEMORY_BUDGET_MIN_BYTES


@pytest.mark.parametrize(("text", "cores", "count"), [("auto", 1, 1), ("auto", 2, 1), ("auto", 8, 7), ("3", 8, 3)])
def test_auto_leaves_a_core_to_the_machine(text: str, cores: int, count: int) -> None:
    assert worker_count(text, cores) == count
    assert worker_count("auto", 1000) == WORKER_COUNT_MAX


@pytest.mark.parametrize("text", ["0", "-1", "65", "10000", "two", "", "1.5", "٣", "AUTO"])
def test_a_wrong_number_is_refused_with_what_may_be(text: str) -> None:
    with pytest.raises(ConfigError, match=r"workers=.*: write a whole number from 1 to 64, or auto"):
        config_of(workers=text)


def test_what_the_command_line_sets_is_passed_on_as_it_was_understood() -> None:
    config = config_of(maxMessageSize="1m", brokerIP1="localhost")
    given = given_settings(config, {"maxMessageSize": "1m", "brokerIP1": "localhost", "nothingHere": "x"})
    assert given == {"maxMessageSize": "1048576", "brokerIP1": "127.0.0.1", "nothingHere": "x"}
