"""The list of topics: searched, sorted, and honest about what is unknown."""

from __future__ import annotations

from pymq.client.admin import BrokerTarget
from pymq.console.pages.topics import topics
from pymq.errors import UnreachableError
from pymq.model.message_types import TYPE_ATTRIBUTE
from pymq.model.tables import TopicConfig
from pymq.operations.topic.table import Ends, TopicTable
from pymq.wire.bodies_rows import TopicEnds
from tests.console.pages.visits import FakeCluster, html_of, page_of

A, B = (BrokerTarget(f"broker-{name}", "east", f"{name}:1") for name in "ab")
BOTH = {"orders": (A, B), "differs": (A, B)}
TIME_MS = 1_700_000_000_000


def table_of(*names: str) -> TopicTable:
    """Return a table of topics with 8 queues; the second broker has 4 of one."""
    configs: dict[BrokerTarget, dict[str, TopicConfig]] = {A: {}, B: {}}
    for name in names:
        for target in BOTH.get(name, (A,)):
            count = 4 if target is B and name == "differs" else 8
            configs[target][name] = TopicConfig(
                topic_name=name,
                read_queue_nums=count,
                write_queue_nums=count,
                attributes={TYPE_ATTRIBUTE: "NORMAL"},
            )
    return TopicTable(configs.items(), ())


NAMES = ("orders", "bills", "%RETRY%g", "empty", "differs")
TABLE = table_of(*NAMES)
ENDS = Ends(
    {
        "broker-a": {
            **{name: TopicEnds(stored=5, last_ms=TIME_MS) for name in NAMES},
            "bills": TopicEnds(stored=7, last_ms=TIME_MS),
            "empty": TopicEnds(),
        }
    },
    {"broker-b": "refused with code 16"},
)


def cluster(table: TopicTable = TABLE, ends: Ends | Exception = ENDS, unreached: str = "timed out") -> FakeCluster:
    answers = {"topic table": table, "ends": ends, "ends of": ends}
    return FakeCluster(answers, {"broker-c": unreached} if unreached else {})


def test_topics_of_applications_come_by_name() -> None:
    page = page_of(topics, cluster())
    assert [each["topic"] for each in page.data["topics"]] == ["bills", "differs", "empty", "orders"]
    assert page.missing == {"broker-c": "timed out", "broker-b": "stored messages are unknown: refused with code 16"}
    assert page.command == ("topic", "list")


def test_the_search_takes_all_kinds_when_asked() -> None:
    page = page_of(topics, cluster(), "kind=all&q=RETRY")
    assert [each["topic"] for each in page.data["topics"]] == ["%RETRY%g"] and page.command == (
        "topic",
        "list",
        "--all",
    )


def test_unknown_figures_come_last_in_either_order() -> None:
    for order in ("up", "down"):
        page = page_of(topics, cluster(), f"sort=stored&order={order}")
        assert page.data["topics"][-1]["topic"] == "orders"


def test_unknown_is_a_dash_and_never_is_never() -> None:
    html = html_of(topics, cluster()).text
    assert 'title="a broker did not tell"' in html or "title=" in html
    assert "never" in html and "8, 4" in html and 'href="/at/prod/topics/orders"' in html


def test_no_match_and_no_topic_are_different() -> None:
    assert "No topic of this kind" in html_of(topics, cluster(), "q=zzz").text
    assert "pymq topic create" in html_of(topics, cluster(table_of(), Ends({}), "")).text


def test_brokers_that_did_not_answer_do_not_look_like_no_topics() -> None:
    assert "Of what was answered: No topics" in html_of(topics, cluster(table_of(), Ends({}))).text
    assert "Of what was answered" not in html_of(topics, cluster(table_of(), Ends({}), "")).text


def test_ends_that_do_not_come_are_named_and_topics_stay() -> None:
    page = page_of(topics, cluster(ends=UnreachableError("broker-a is away")))
    assert page.missing["stored messages"] == "broker-a is away"
    assert {(row["stored"], row["last_ms"]) for row in page.data["topics"]} == {(None, None)}
    assert len(page.data["topics"]) == 4


def test_by_name_only_the_ends_of_shown_topics_are_asked_for() -> None:
    few, one = cluster(), cluster()
    page_of(topics, few, "rows=2")
    assert few.asked == ["topic table", ("ends of", "bills", "differs")]
    page_of(topics, one, "q=orders")
    assert one.asked == ["topic table", ("ends of", "orders")]
    by_stored = cluster()
    page_of(topics, by_stored, "sort=stored")
    assert by_stored.asked == ["topic table", "ends"]
    nothing = cluster()
    page_of(topics, nothing, "q=zzz")
    assert nothing.asked == ["topic table"]
