"""``pymq doctor`` on servers: a sound one, one that is gone, and a cluster that is sick in several ways at once."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.groups import GroupAdmin
from pymq.client.sync import PushConsumer
from pymq.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.brokers import Brokers
from tests.cli.conftest import Pymq
from tests.machine import NOWHERE
from tests.net.test_name_server_list import AddressServer


def found(text: str) -> set[tuple[str, str, str]]:
    return {(one["check"], one["severity"], one["subject"]) for one in json.loads(text)["findings"]}


def test_a_sound_server_passes(pymq: Pymq) -> None:
    sound = ["--check", "name-servers", "--check", "address", "--check", "clock", "--check", "masters"]
    done = pymq("doctor", *sound)
    assert (done.code, done.err) == (EXIT_OK, "")
    assert "fine: name-servers, address, clock, masters\n" in done.out
    assert "0 problems, 0 warnings, 0 notes, 0 not known (1 name server, 1 broker, " in done.out


def test_without_a_name_server_nothing_else_is_checked(pymq: Pymq) -> None:
    done = pymq("doctor", "--namesrv", NOWHERE)
    assert done.code == EXIT_UNREACHABLE
    assert f"PROBLEM  name-servers: {NOWHERE}" in done.out
    assert "not checked: agreement, brokers" in done.out
    record = pymq("doctor", "--namesrv", NOWHERE, "-o", "json").json()
    assert [check["name"] for check in record["checks"] if check["checked"]] == ["name-servers"]


def test_name_servers_that_an_address_server_names_are_compared(pymq: Pymq, server: StandaloneProcess) -> None:
    address_server = AddressServer()
    address_server.body = f"{server.namesrv};{NOWHERE}".encode()
    try:
        done = pymq("doctor", "--namesrv", address_server.url, "--check", "name-servers", "--check", "address")
        assert done.code == EXIT_FAILED and done.out.count("PROBLEM") == 1
        assert f"PROBLEM  name-servers: {NOWHERE}" in done.out
    finally:
        address_server.close()
    gone = pymq("doctor", "--namesrv", address_server.url)
    assert gone.code == EXIT_UNREACHABLE and f"PROBLEM  name-servers: {address_server.url}" in gone.out
    listed = pymq("topic", "list", "--namesrv", address_server.url)
    assert listed.code == EXIT_UNREACHABLE and listed.err.count("does not answer") == 1, "said once"


def test_it_asks_for_sums_and_never_for_every_queue_of_every_group(pymq: Pymq, monkeypatch: pytest.MonkeyPatch) -> None:
    pymq("send", "doctored-sums", "one")
    assert pymq("tail", "doctored-sums", "--group", "sums", "--create-group", "--commit", "-F", "-1").code == EXIT_OK
    pymq("send", "doctored-sums", "two")
    for method in (BrokerAdmin.consume_stats, GroupAdmin.places_at, GroupAdmin.lag):
        monkeypatch.setattr(f"{method.__module__}.{method.__qualname__}", None)
    done = pymq("doctor", "--check", "stuck", "--observe", "0", "-o", "json").json()
    [behind] = [one for one in done["findings"] if one["subject"] == "sums"]
    assert (behind["severity"], behind["values"]["lag"]) == ("warning", 1)


def test_an_unknown_check_is_named(pymq: Pymq) -> None:
    done = pymq("doctor", "--check", "dsk")
    assert done.code == EXIT_USAGE
    assert "no check 'dsk': there are name-servers, agreement" in done.err


def test_strict_turns_warnings_into_a_failure(pymq: Pymq) -> None:
    pymq("send", "doctored", "one")
    assert (
        pymq(
            "tail", "doctored", "--group", "doctored-group", "--create-group", "--commit", "--from", "start", "-F"
        ).code
        == EXIT_OK
    )
    pymq("send", "doctored", "two")
    assert pymq("doctor", "--check", "stuck", "--observe", "0").code == EXIT_OK
    done = pymq("doctor", "--check", "stuck", "--observe", "0", "--strict")
    assert done.code == EXIT_FAILED
    assert "WARNING  stuck: doctored-group" in done.out


@pytest.mark.slow
def test_a_sick_cluster_yields_each_finding_with_its_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Brokers(tmp_path) as brokers:
        brokers.start("a", "--name", "broker-a", brokerRole="SYNC_MASTER")
        brokers.start("b", "--name", "broker-b")
        brokers.run("topic", "create", "hidden", "-b", "broker-a", "--wq", "8", "--rq", "4")
        brokers.run("topic", "create", "orders", "-b", "broker-b", "--wq", "1")
        brokers.run("send", "orders", "one")
        assert (
            brokers.run("tail", "orders", "--group", "slow", "--create-group", "--commit", "--from", "start", "-F")
            == EXIT_OK
        )
        brokers.run("send", "orders", "two")
        never, entered = threading.Event(), threading.Event()

        def block(_: Any) -> None:
            entered.set()
            never.wait()

        consumer = PushConsumer("slow", namesrv=brokers.namesrv, on_message=block)
        consumer.subscribe("orders")
        with consumer:
            assert entered.wait(60)
            record = doctor(brokers, capsys, "--observe", "0.2")
            assert ("stuck", "problem", "slow") in found(record)
            brokers.signal("b", signal.SIGSTOP)
            try:
                sick = doctor(brokers, capsys, "--timeout", "2", "--namesrv", f"{NOWHERE};{brokers.namesrv}")
            finally:
                brokers.signal("b", signal.SIGCONT)
                never.set()
    assert found(sick) >= {
        ("name-servers", "problem", NOWHERE),
        ("address", "problem", "broker-b"),
        ("queues", "problem", "hidden on broker-a"),
        ("replication", "problem", "broker-a"),
    }
    assert all(one["next_step"] for one in json.loads(sick)["findings"] if one["severity"] == "problem")


def doctor(brokers: Brokers, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the JSON of a doctor that found problems."""
    capsys.readouterr()
    named = arguments if "--namesrv" in arguments else (*arguments, "--namesrv", brokers.namesrv)
    assert cli.run(["doctor", "-o", "json", *named]) == EXIT_FAILED
    return capsys.readouterr().out
