"""What ``pymq check`` prints, and how it exits, on a real cluster."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Pymq
from tests.machine import NOWHERE


@pytest.mark.parametrize(
    ("arguments", "code", "begin"),
    [
        (["broker"], 0, "BROKER OK - 1 broker answering | 'registered'=1"),
        (["broker", "--count", "2"], 2, "BROKER CRITICAL - cluster: 1 brokers are registered instead of 2"),
        (["broker", "nope"], 3, "BROKER UNKNOWN - cluster: no broker 'nope' is registered"),
        (["disk", "-w", "100", "-c", "100"], 0, "DISK OK - 1 disk with room | 'broker-a'="),
        (["disk", "-w", "0", "-c", "100"], 1, "DISK WARNING - broker-a: "),
        (["lag", "no-such-group"], 3, "LAG UNKNOWN - cluster: group 'no-such-group' has no place"),
        (["lag", "-w", "many"], 3, "LAG UNKNOWN - cluster: 'many' is not a duration"),
        (["lag", "-c", "1000000,1000d"], 0, "LAG OK - "),
        (["replica"], 0, "REPLICA OK - 0 slaves in step with their masters"),
        (["replica", "--count", "1"], 2, "REPLICA CRITICAL - broker-a: 0 slaves registered, 1 must be (--count): pymq"),
        (["broker", "--namesrv", NOWHERE], 3, "BROKER UNKNOWN - cluster: no connection"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_commands_print_one_line_and_exit_as_monitoring_expects(
    pymq: Pymq, arguments: list[str], code: int, begin: str
) -> None:
    done = pymq("check", *arguments)
    assert done.out.startswith(begin), done.out + done.err
    assert (done.code, done.err) == (code, "")


def test_the_result_is_there_as_json(pymq: Pymq) -> None:
    record = pymq("check", "broker", "-o", "json").json()
    assert (record["check"], record["status"], record["exit_code"]) == ("broker", "OK", 0)
    assert record["parts"][0]["subject"] == "broker-a"
    assert [figure["label"] for figure in record["figures"]] == ["registered", "silent", "broker-a"]
    failed = pymq("check", "lag", "--namesrv", NOWHERE, "-o", "json")
    assert (failed.code, failed.json()["status"]) == (3, "UNKNOWN")
    assert isinstance(pymq("check", "replica", "-o", "json").json(), list)
