"""pymq lite: parents, their lite topics, one of them, and how far groups are behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pymq.client.sync import LiteConsumer
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented

PARENT, GROUP = "lite-parent", "lite-readers"


@pytest.fixture
def consumer(pymq: Pymq, server: StandaloneProcess) -> Iterator[LiteConsumer]:
    """Return a consumer of the lite topics eu-1 and eu-2; us-1 has a message, too."""
    if pymq("topic", "describe", PARENT).code == EXIT_NOT_FOUND:
        assert pymq("topic", "create", PARENT, "--type", "lite", "--expire", "1d", "--wq", "2").code == EXIT_OK
        assert pymq("group", "create", GROUP, "--lite", PARENT).code == EXIT_OK
        for lite in ("eu-1", "eu-1", "eu-2", "us-1"):
            assert pymq("send", PARENT, f"to {lite}", "--lite", lite).code == EXIT_OK
    with LiteConsumer(GROUP, PARENT, namesrv=server.namesrv) as made:
        made.subscribe("eu-1", "eu-2")
        yield made


def test_parents_and_their_lite_topics_are_listed(pymq: Pymq, consumer: LiteConsumer) -> None:
    records = pymq("lite", "list", "--json").json()
    assert_documented("lite list", records)
    (mine,) = [record for record in records if record["topic"] == PARENT]
    assert (mine["lite_topics"], mine["expire_ms"], mine["groups"]) == (3, 86_400_000, [GROUP])
    rows = pymq("lite", "list", PARENT, "--json").json()
    assert_documented("lite list", rows)
    assert [(row["lite_topic"], row["next_offset"]) for row in rows] == [("eu-1", 2), ("eu-2", 1), ("us-1", 1)]
    assert [row["lite_topic"] for row in pymq("lite", "list", PARENT, "--prefix", "us", "--json").json()] == ["us-1"]
    some = pymq("lite", "list", PARENT, "-n", "2")
    assert "us-1" not in some.out and "more than 2: use --count, or --prefix" in some.err
    assert "1d" in pymq("lite", "list").out


def test_one_lite_topic_is_described(pymq: Pymq, consumer: LiteConsumer) -> None:
    record = pymq("lite", "describe", PARENT, "eu-1", "--json").json()
    assert_documented("lite describe", record)
    assert (record["messages"], record["min_offset"], record["next_offset"]) == (2, 0, 2)
    assert record["subscribers"] == [{"group": GROUP, "client": consumer.client_id}]
    shown = pymq("lite", "describe", PARENT, "eu-1").out
    assert f"{consumer.client_id} in {GROUP}" in shown and "0 to 2 (the next)" in shown
    unused = pymq("lite", "describe", PARENT, "never")
    assert unused.code == EXIT_OK and "messages     0" in unused.out


def test_the_lag_of_a_group(pymq: Pymq, consumer: LiteConsumer) -> None:
    record = pymq("lite", "lag", GROUP, "--json").json()
    assert_documented("lite lag", record)
    assert (record["topic"], record["lag"]) == (PARENT, 4) and record["waiting_since_ms"] > 0
    assert [(row["lite_topic"], row["lag"]) for row in record["lite_topics"]] == [("eu-1", 2), ("eu-2", 1), ("us-1", 1)]
    assert len(pymq("lite", "lag", GROUP, "-n", "1", "--json").json()["lite_topics"]) == 1
    assert f"{GROUP} is 4 messages behind in {PARENT}; the oldest for " in pymq("lite", "lag", GROUP).out
    one = pymq("lite", "lag", GROUP, "eu-1", "--json").json()
    assert_documented("lite lag", one)
    assert (one["lag"], one["next_offset"], one["committed"]) == (2, 2, 0)
    assert "lag          2" in pymq("lite", "lag", GROUP, "eu-1").out


def test_a_tail_shows_one_lite_topic(pymq: Pymq, consumer: LiteConsumer) -> None:
    shown = pymq("tail", PARENT, "--lite", "eu-1", "--from", "start", "--no-follow", "-o", "raw").out
    assert shown.splitlines() == ["to eu-1", "to eu-1"]
    assert pymq("tail", PARENT, "--lite", "eu", "--from", "start", "--no-follow", "-o", "raw").out == ""


def test_what_has_no_lite_topics_is_refused(pymq: Pymq, consumer: LiteConsumer) -> None:
    assert pymq("lite", "list", "nowhere").code == EXIT_NOT_FOUND
    assert pymq("lite", "lag", "nobody").code == EXIT_NOT_FOUND
    refused = pymq("lite", "list", "TBW102")
    assert refused.code == EXIT_REFUSED and "message.type=LITE" in refused.err
    assert pymq("group", "create", "plain-readers").code == EXIT_OK
    assert pymq("lite", "lag", "plain-readers").code == EXIT_REFUSED
    assert pymq("group", "create", "wrong", "--lite-model", "both").code == EXIT_USAGE


def test_a_groups_attributes_change_one_by_one(pymq: Pymq, consumer: LiteConsumer) -> None:
    (made,) = pymq("group", "create", "lite-others", "--lite", PARENT, "--lite-model", "exclusive", "--json").json()
    assert (made["lite_parent"], made["lite_model"], made["lite_wildcard"]) == (PARENT, "Exclusive", None)
    (after,) = pymq("group", "update", "lite-others", "--lite-all", "--retries", "3", "--json").json()
    assert after["changes"] == ["retry_max 16 -> 3", "lite_wildcard none -> true"]
    assert (after["lite_parent"], after["lite_model"]) == (PARENT, "Exclusive")
    (dry,) = pymq("group", "update", "lite-others", "--lite-model", "shared", "--dry-run", "--json").json()
    assert dry["changes"] == ["lite_model Exclusive -> Shared"] and not dry["applied"]
