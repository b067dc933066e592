"""The topic commands against a real server."""

from __future__ import annotations

import pytest

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq


def test_create_shows_what_was_made(pymq: Pymq, server: StandaloneProcess) -> None:
    outcome = pymq("topic", "create", "made", "--wq", "4", "--rq", "6", "--perm", "RW", "-o", "json")
    assert outcome.code == EXIT_OK
    [record] = outcome.json()
    assert record["broker"] == "broker-a"
    assert record["address"] == server.broker
    assert (record["read_queues"], record["write_queues"], record["perm"]) == (6, 4, "RW-")


def test_a_topic_gets_a_type_and_remoting_sends_are_not_checked(pymq: Pymq) -> None:
    assert pymq("topic", "create", "typed", "--type", "delay").code == EXIT_OK
    assert pymq("send", "typed", "now").code == EXIT_OK
    assert pymq("send", "typed", "later", "--delay-level", "1").code == EXIT_OK
    [changed] = pymq("topic", "update", "typed", "--type", "normal", "-o", "json").json()
    assert changed["attributes"] == {"message.type": "NORMAL"}
    line = pymq("topic", "update", "typed", "--type", "mixed").out.splitlines()[1]
    assert "MIXED" in line and line.endswith("8/8 RW- NORMAL")
    assert pymq("send", "typed", "now").code == EXIT_OK
    outcome = pymq("topic", "create", "mistyped", "--type", "slow")
    assert outcome.code == EXIT_USAGE and "transaction" in outcome.err


def test_a_topic_with_batch_queues_keeps_its_queue_type(pymq: Pymq) -> None:
    [made] = pymq("topic", "create", "measured", "--queue-type", "batchcq", "--wq", "1", "-o", "json").json()
    assert made["attributes"] == {"queue.type": "BatchCQ"}
    [updated] = pymq("topic", "update", "measured", "--wq", "2", "--rq", "2", "-o", "json").json()
    assert (updated["attributes"], updated["write_queues"]) == ({"queue.type": "BatchCQ"}, 2)
    outcome = pymq("topic", "create", "measured", "--queue-type", "SimpleCQ")
    assert outcome.code == EXIT_REFUSED and "exists already" in outcome.err
    outcome = pymq("topic", "create", "measured-2", "--queue-type", "rocksdb")
    assert outcome.code == EXIT_USAGE and "BatchCQ" in outcome.err
    outcome = pymq("topic", "update", "measured", "--queue-type", "BatchCQ")
    assert outcome.code == EXIT_USAGE


def test_list_has_user_topics_only_unless_all_are_asked_for(pymq: Pymq) -> None:
    pymq("topic", "create", "listed")
    listed = {record["topic"]: record for record in pymq("topic", "list", "-o", "json").json()}
    assert listed["listed"]["write_queues"] == 8
    assert listed["listed"]["brokers"] == ["broker-a"]
    assert not listed.keys() & {"TBW102", "SELF_TEST_TOPIC", "DefaultCluster", "broker-a"}
    everything = {record["topic"] for record in pymq("topic", "list", "--all", "-o", "json").json()}
    assert everything > listed.keys() | {"TBW102", "DefaultCluster"}


def test_an_unknown_cluster_is_not_an_empty_list(pymq: Pymq) -> None:
    outcome = pymq("topic", "list", "-c", "Nope")
    assert outcome.code == EXIT_NOT_FOUND and "there are DefaultCluster" in outcome.err


@pytest.mark.parametrize(("perm", "command"), [("R", ["send", "{}", "x"]), ("W", ["tail", "{}", "-F"])])
def test_a_permission_that_stops_a_command_is_named(pymq: Pymq, perm: str, command: list[str]) -> None:
    name = f"only_{perm}"
    pymq("topic", "create", name, "--perm", perm)
    outcome = pymq(*(part.format(name) for part in command))
    assert outcome.code == EXIT_REFUSED
    assert f"its permission on broker-a is {'R--' if perm == 'R' else '-W-'}" in outcome.err


def test_the_table_has_a_heading(pymq: Pymq) -> None:
    pymq("topic", "create", "tabled")
    lines = pymq("topic", "list").out.splitlines()
    assert lines[0].split("  ")[0] == "TOPIC"
    assert any(line.startswith("tabled ") for line in lines)


@pytest.mark.parametrize("where", [["-c", "DefaultCluster"], ["-b", "broker-a"]], ids=["cluster", "broker"])
def test_cluster_and_broker_mode(pymq: Pymq, where: list[str]) -> None:
    name = f"mode{where[0]}"
    assert pymq("topic", "create", name, *where).code == EXIT_OK
    assert pymq("topic", "update", name, *where, "--wq", "2").code == EXIT_OK
    assert pymq("topic", "delete", name, *where, "--yes").code == EXIT_OK
    assert pymq("topic", "route", name).code == EXIT_NOT_FOUND


def test_a_broker_by_address(pymq: Pymq, server: StandaloneProcess) -> None:
    assert pymq("topic", "create", "by_address", "-b", server.broker).code == EXIT_OK
    assert pymq("topic", "route", "by_address", "-o", "json").json()[0]["address"] == server.broker


def test_unknown_cluster_and_broker(pymq: Pymq) -> None:
    for where in (["-c", "Nowhere"], ["-b", "unknown"]):
        outcome = pymq("topic", "create", "t", *where)
        assert outcome.code == EXIT_NOT_FOUND
        assert where[1] in outcome.err


def test_creating_an_existing_topic_is_refused(pymq: Pymq) -> None:
    pymq("topic", "create", "twice")
    outcome = pymq("topic", "create", "twice")
    assert outcome.code == EXIT_REFUSED
    assert "pymq topic update" in outcome.err


def test_update_changes_what_is_given(pymq: Pymq) -> None:
    pymq("topic", "create", "changed", "--wq", "16")
    [record] = pymq("topic", "update", "changed", "--wq", "8", "-o", "json").json()
    assert (record["read_queues"], record["write_queues"], record["perm"]) == (16, 8, "RW-")
    assert record["before"] == "16/16 RW-"
    [record] = pymq("topic", "update", "changed", "--perm", "R", "-o", "json").json()
    assert (record["read_queues"], record["write_queues"], record["perm"]) == (16, 8, "R--")
    [route] = pymq("topic", "route", "changed", "-o", "json").json()
    assert (route["read_queues"], route["write_queues"], route["perm"]) == (16, 8, "R--")


def test_queues_that_are_written_but_not_read_are_warned_of(pymq: Pymq) -> None:
    outcome = pymq("topic", "create", "unread", "--wq", "8", "--rq", "4")
    assert "queues 4 to 7 on broker-a will be written but not read: raise --rq to 8" in outcome.err
    assert pymq("topic", "update", "unread", "--rq", "8").err == ""
    assert "queue 8 on broker-a" in pymq("topic", "update", "unread", "--wq", "9").err


def test_update_of_no_topic(pymq: Pymq) -> None:
    assert pymq("topic", "update", "absent", "--wq", "8").code == EXIT_NOT_FOUND


def test_update_without_a_name_lists_the_topics(pymq: Pymq) -> None:
    pymq("topic", "create", "to_choose")
    outcome = pymq("topic", "update", "--wq", "8")
    assert outcome.code == EXIT_USAGE
    assert "to_choose" in outcome.out.splitlines()
    assert "no topic is given" in outcome.err


def test_shrinking_keeps_the_messages_of_the_upper_queues(pymq: Pymq) -> None:
    pymq("topic", "create", "shrink", "--wq", "4")
    pymq("send", "shrink", stdin="".join(f"m{number}\n" for number in range(40)))
    pymq("topic", "update", "shrink", "--wq", "2")
    pymq("send", "shrink", stdin="".join(f"m{number}\n" for number in range(40, 60)))
    assert len(pymq("tail", "shrink", "-F", "--from", "start", "-o", "raw").out.splitlines()) == 60
    stats = {record["queue"]: record["messages"] for record in pymq("topic", "stats", "shrink", "-o", "json").json()}
    assert stats[2] == stats[3] == 10
    assert stats[0] + stats[1] == 40


def test_describe_counts_messages(pymq: Pymq) -> None:
    pymq("topic", "create", "described", "--wq", "2")
    pymq("send", "described", "one")
    described = pymq("topic", "describe", "described", "-o", "json").json()
    assert (described["messages"], described["groups"]) == (1, [])
    assert described["brokers"][0]["messages"] == 1
    assert "described: 1 message" in pymq("topic", "describe", "described").out


def test_stats_by_queue(pymq: Pymq) -> None:
    pymq("topic", "create", "counted", "--wq", "2")
    pymq("send", "counted", "one", "--queue", "broker-a:1")
    records = pymq("topic", "stats", "counted", "-o", "json").json()
    assert [(record["queue"], record["min_offset"], record["max_offset"]) for record in records] == [
        (0, 0, 0),
        (1, 0, 1),
    ]
    assert records[0]["last_message_ms"] == 0
    assert records[1]["last_message_ms"] > 1_700_000_000_000
    assert pymq("topic", "stats", "counted").out.splitlines()[1].endswith("-")


def test_delete_is_refused_while_a_group_is_behind(pymq: Pymq) -> None:
    pymq("topic", "create", "still_read", "--wq", "2")
    pymq("send", "still_read", stdin="".join(f"m{number}\n" for number in range(6)))
    pymq("offset", "reset", "slow_group", "--topic", "still_read", "--to", "start", "--yes")
    outcome = pymq("topic", "delete", "still_read", "--yes")
    assert outcome.code == EXIT_REFUSED and "slow_group (offline) has 6 unread" in outcome.err
    outcome = pymq("topic", "delete", "still_read")
    assert outcome.code == EXIT_USAGE and "still_read: 6 messages on broker-a" in outcome.err
    assert pymq("topic", "create", "%RETRY%slow_group").code == EXIT_OK
    outcome = pymq("topic", "delete", "still_read", "--yes", "--force", "--with-retries")
    assert outcome.code == EXIT_OK
    assert outcome.out == "deleted still_read on broker-a\ndeleted %RETRY%slow_group on broker-a\n"


def test_delete_requires_a_confirmation(pymq: Pymq) -> None:
    pymq("topic", "create", "deleted")
    assert pymq("topic", "delete", "deleted").code == EXIT_USAGE
    outcome = pymq("topic", "delete", "deleted", "--yes")
    assert (outcome.code, outcome.out) == (EXIT_OK, "deleted deleted on broker-a\n")
    assert pymq("topic", "describe", "deleted").code == EXIT_NOT_FOUND
    assert pymq("topic", "delete", "deleted", "--yes").code == EXIT_NOT_FOUND
