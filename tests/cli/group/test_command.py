"""Groups are made, changed and deleted; their members are shown, asked, and handed single messages."""

from __future__ import annotations

import threading

import pytest

from pymq.client.sync import PushConsumer
from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented


def test_a_group_is_created_changed_and_deleted(pymq: Pymq) -> None:
    create = ["group", "create", "made", "--retries", "5", "--ordered"]
    [planned] = pymq(*create, "--dry-run", "-o", "json").json()
    assert (planned["applied"], planned["changes"], planned["retry_max"]) == (False, ["new"], 5)
    assert pymq("group", "describe", "made").code == EXIT_NOT_FOUND
    [made] = pymq(*create, "-o", "json").json()
    assert (made["applied"], made["broker"], made["retry_max"], made["ordered"]) == (True, "broker-a", 5, True)
    again = pymq(*create)
    assert (again.code, "exists already on broker-a" in again.err) == (EXIT_REFUSED, True)

    update = ["group", "update", "made", "--retries", "7", "--no-broadcast", "-o", "json"]
    [planned] = pymq(*update, "--dry-run").json()
    [changed] = pymq(*update).json()
    assert planned["changes"] == changed["changes"] == ["retry_max 5 -> 7", "broadcast_allowed yes -> no"]
    assert changed["ordered"], "what is not named stays"
    assert pymq(*update).json()[0]["changes"] == []

    [disabled] = pymq("group", "disable", "made", "-b", "broker-a", "-o", "json").json()
    assert (disabled["enabled"], disabled["changes"]) == (False, ["enabled yes -> no"])
    assert "off" in pymq("group", "describe", "made").out
    assert pymq("group", "enable", "made", "-o", "json").json()[0]["enabled"]

    assert pymq("group", "delete", "made").code == EXIT_USAGE, "no terminal and no --yes"
    assert pymq("group", "delete", "made", "--yes", "--dry-run", "-o", "json").json()["applied"] is False
    assert pymq("group", "delete", "made", "--yes").out == "deleted made on broker-a\n"
    assert pymq("group", "delete", "made", "--yes").code == EXIT_NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create", "bad name"], EXIT_USAGE, "bad name"),
        (["create", "g" * 256], EXIT_USAGE, "255"),
        (["create", "g", "--retries", "10001"], EXIT_USAGE, "-1<=x<=10000"),
        (["create", "g", "--consume-timeout", "0"], EXIT_USAGE, "1<=x<=1440"),
        (["create", "g", "-b", "nope"], EXIT_NOT_FOUND, "there are broker-a"),
        (["create", "g", "-c", "nope"], EXIT_NOT_FOUND, "there are DefaultCluster"),
        (["update", "g"], EXIT_USAGE, "nothing to change is given"),
        (["update", "absent", "--retries", "1"], EXIT_NOT_FOUND, "no consumer group 'absent'"),
        (["update", "absent", "--retries", "1", "-b", "broker-a"], EXIT_NOT_FOUND, "on broker-a"),
        (["disable", "absent"], EXIT_NOT_FOUND, "no consumer group 'absent'"),
        (["members", "absent"], EXIT_NOT_FOUND, "no consumer group 'absent'"),
        (["client", "absent", "id"], EXIT_NOT_FOUND, "no consumer group 'absent'"),
    ],
)
def test_bad_input_is_named(arguments: list[str], code: int, words: str, pymq: Pymq) -> None:
    outcome = pymq("group", *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert words in outcome.err


def test_members_and_what_they_do(pymq: Pymq, server: StandaloneProcess) -> None:
    pymq("topic", "create", "owned", "--wq", "4")
    pymq("send", "owned", "first")
    got: list[bytes] = []
    handled = threading.Event()

    def handle(messages: object) -> None:
        got.append(b"x")
        handled.set()

    member = PushConsumer("owners", namesrv=server.namesrv, on_message=handle, consume_from="first")
    member.subscribe("owned", "*")
    with member:
        assert handled.wait(60)
        shown = pymq("group", "members", "owners", "-o", "json").json()
        [one] = shown["members"]
        assert_documented("group members", shown)
        assert (one["language"], one["version"], one["queues"]) == ("PYTHON", "V5_3_3", 4)
        owners = {(queue["queue"], queue["owner"]) for queue in shown["queues"]}
        assert owners == {(number, one["client_id"]) for number in range(4)}
        assert one["client_id"] in pymq("group", "members", "owners").out

        described = pymq("group", "client", "owners", one["client_id"], "--stack", "-o", "json").json()
        assert_documented("group client", described)
        assert described["properties"]["PROP_CLIENT_VERSION"].startswith("PyMQ")
        assert "thread MainThread" in described["stack"] and "GroupRequests.handle" in described["stack"]
        assert {queue["topic"] for queue in described["queues"]} >= {"owned"}
        assert "GroupRequests.handle" not in pymq("group", "client", "owners", one["client_id"]).out

        sent = pymq("send", "owned", "again", "-o", "json").json()
        count = len(got)
        done = pymq("group", "consume", "owners", one["client_id"], sent["offset_message_id"], "-o", "json").json()
        assert_documented("group consume", done)
        assert (done["result"], done["succeeded"], len(got) > count) == ("CR_SUCCESS", True, True)
        by_id = ["group", "consume", "owners", one["client_id"], sent["message_id"], "--topic", "owned"]
        planned = pymq(*by_id, "--dry-run", "-o", "json").json()
        assert_documented("group consume", planned)
        assert (planned["message_id"], planned["result"]) == (sent["message_id"], None)
        assert pymq(*by_id).code == EXIT_OK

        deleted = pymq("group", "delete", "owners", "--yes")
        assert (deleted.code, "1 members online" in deleted.err) == (EXIT_REFUSED, True)
        missing = pymq("group", "client", "owners", "nobody")
        assert (missing.code, one["client_id"] in missing.err) == (EXIT_NOT_FOUND, True)
    assert pymq("group", "members", "owners", "-o", "json").json()["members"] == []
    assert pymq("group", "delete", "owners", "--yes", "--with-topics").code == EXIT_OK
    assert "%RETRY%owners" not in pymq("topic", "list", "--all").out


def test_a_member_that_fails_on_a_message_says_so(pymq: Pymq, server: StandaloneProcess) -> None:
    pymq("topic", "create", "failing", "--wq", "1")

    def handle(messages: object) -> None:
        raise ValueError("a bad day")

    member = PushConsumer("failers", namesrv=server.namesrv, on_message=handle)
    member.subscribe("failing")
    sent = pymq("send", "failing", "m", "-o", "json").json()
    with member:
        [one] = pymq("group", "members", "failers", "-o", "json").json()["members"]
        outcome = pymq("group", "consume", "failers", one["client_id"], sent["offset_message_id"])
        assert (outcome.code, "CR_THROW_EXCEPTION" in outcome.out) == (EXIT_FAILED, True)
        assert "a bad day" in outcome.out


def test_a_reset_can_be_a_dry_run(pymq: Pymq) -> None:
    pymq("topic", "create", "resettable", "--wq", "1")
    pymq("send", "resettable", "m")
    reset = ["offset", "reset", "resetters", "--to", "end", "--topic", "resettable"]
    for options in (["--dry-run"], ["--dry-run", "--yes"]):
        assert pymq(*reset, *options, "-o", "json").json()["applied"] is False
    assert pymq("group", "describe", "resetters").code == EXIT_NOT_FOUND
    assert pymq(*reset, "--yes", "-o", "json").json()["applied"] is True
