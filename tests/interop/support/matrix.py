"""The table of features and clients in docs/compatibility.md. A cell stands for the tests of a feature with a client.

A run of the tests writes the cells: ✓ when all tests of the cell passed, ✗ when one failed. A cell whose tests did not
run stays as it was. A cell without a test is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

BEGIN, END = "<!-- written by the interop tests -->", "<!-- end -->"
PASSED, FAILED = "✓", "✗"

FEATURES: dict[str, list[str]] = {
    "send and wait": ["sync_send", "send_and_pull", "send_and_receive"],
    "send, answer by callback": ["async_send", "asynchronous_sends"],
    "send without an answer": ["oneway", "sends_without_an_answer"],
    "batch": ["batch", "batches"],
    "inner batches": ["inner_batch", "inner_batches"],
    "queue by key": ["order_by_key"],
    "queue chosen by the sender": ["selected_queue", "selected_queue_keeps_order"],
    "compressed bodies": ["compressed", "compressed_bodies"],
    "text beyond ASCII": ["non_ascii", "text_beyond_ascii"],
    "topic made by its first send": ["auto_create", "topic_made_by_its_first_send"],
    "too large a message is refused": ["too_large", "too_large_a_message", "big_body"],
    "push, shared by a group": [
        "consume",
        "clustering",
        "share_and_rebalance",
        "plain_handlers_run_in_threads",
        "push",
    ],
    "loops over consumers": [
        "loop_over_a_push_consumer",
        "loop_left_early",
        "loop_over_a_pull_consumer",
        "a_loop_over_a_pull_consumer_waits",
        "blocking_loops",
    ],
    "members come, leave, die": ["member_leaves", "a_member_that_vanishes", "a_topic_that_comes_later"],
    "broadcasting": ["broadcasting"],
    "in order": ["orderly", "orderly_gives_up", "fifo", "fifo_failure"],
    "tags": ["tag_filter", "tag_hash_collision", "tags", "members_that_subscribe_differently"],
    "SQL92": ["sql", "sql_push", "sql_lite_pull", "sql_pull", "sql_wrong"],
    "offsets survive a restart": ["offsets_survive", "offsets_survive_a_restart"],
    "start by time": ["from_timestamp", "find_by_time", "search_offset"],
    "backlog": ["backlog_batches"],
    "retries": ["retry", "retry_then_success"],
    "dead letters": ["dead_letter", "dead_letters"],
    "delay levels": ["delay_level", "delayed_by_level"],
    "timers and recall": ["timer", "timers_and_recall", "delay", "recall"],
    "pull": ["pull_statuses", "pull_from", "long_poll"],
    "lite pull": ["lite_pull_subscribe", "lite_pull_assign"],
    "look-up by id and key": ["query_by_key", "view_by_id", "look_up_by_id_and_key"],
    "pop": [
        "pop_api",
        "pop_push",
        "receive_ack_extend",
        "given_up",
        "received_at_a_broker",
        "simple_blocking",
        "loop_over_a_simple_consumer",
        "pushed_by_pops",
        "pulled_by_assignment",
        "invisible",
    ],
    "lite topics": [
        "subscribed_one_by_one",
        "woken_while_it_waits",
        "with_a_late_clock",
        "ordered_and_given_back",
        "begin_elsewhere",
        "exclusive",
        "wildcard",
        "lite_blocking",
        "parent_made_again",
    ],
    "transactions": ["transaction", "transaction_check", "transactions", "orphans"],
    "request and reply": ["request_reply", "request_and_reply"],
    "trace": ["trace", "traces"],
    "listeners that take long": ["slow"],
    "messages of remoting clients, and theirs": ["to_remoting", "from_remoting"],
    "another type than the topic's is refused": ["wrong_type"],
    "administration": ["admin", "reset_by_an_operator", "operators_see_the_consumer"],
    "blocking calls": ["blocking_faces"],
}


class Column(NamedTuple):
    """A client. ``files`` maps a test file to the text in the test's id that stands for this client, "" for any."""

    title: str
    files: dict[str, str]


COLUMNS = [
    Column("Java 4.9.8", {"test_clients_java.py": "java-4.9.8-", "test_sql92.py": "client-4.9.8-"}),
    Column(
        "Java 5.3.3",
        {"test_clients_java.py": "java-5.3.3-", "test_sql92.py": "client-5.3.3-", "test_pop_java.py": "5.3.3-"},
    ),
    Column(
        "Java 5.3.3, binary headers",
        {"test_clients_java.py": "java-5.3.3-binary-", "test_pop_java.py": "5.3.3-binary-"},
    ),
    Column(
        "Java 5.5.0",
        {"test_clients_java.py": "java-5.5.0-", "test_sql92.py": "client-5.5.0-", "test_pop_java.py": "5.5.0-"},
    ),
    Column(
        "Java 5.5.0, binary headers",
        {"test_clients_java.py": "java-5.5.0-binary-", "test_pop_java.py": "5.5.0-binary-"},
    ),
    Column("Go 2.1.2", {"test_clients_go.py": ""}),
    Column("C++ 0.4.4", {"test_clients_cpp.py": ""}),
    Column("ali-ons 3.12.0", {"test_clients_node.py": ""}),
    Column("gRPC Java 5.2.0", {"test_clients_grpc.py": "java-"}),
    Column("gRPC Python 5.1.2", {"test_clients_grpc.py": "python-"}),
    Column("gRPC Go 5.1.4", {"test_clients_grpc.py": "go-"}),
    Column("gRPC Node 1.0.8", {"test_clients_grpc.py": "node-"}),
    Column("PyMQ", {"test_with_broker.py": ""}),
    Column("PyMQ on Apache 5.3.3", {"test_apache_client.py": ""}),
    Column("PyMQ on Apache 5.5.0", {"test_lite_consumer_apache.py": ""}),
]

Cells = dict[tuple[str, str], str]

_ID = re.compile(
    r"(?:.*/)?(?P<file>\w+\.py)::test_(?:scenario|scenario_with_binary_headers|java_consumers)\[(?:pymq-|apache-)?(?P<rest>.+)\]$"
)
_FEATURE_OF = {scenario: feature for feature, scenarios in FEATURES.items() for scenario in scenarios}


def place(test_id: str) -> tuple[str, str] | None:
    """Return the feature and the client of a test, None for one that belongs to no cell.

    Raises ValueError for the scenario of a client that no feature names.
    """
    parts = _ID.match(test_id)
    if parts is None:
        return None
    fitting = [
        (len(column.files[parts["file"]]), column)
        for column in COLUMNS
        if parts["file"] in column.files and parts["rest"].startswith(column.files[parts["file"]])
    ]
    if not fitting:
        return None
    length, column = max(fitting)
    scenario = parts["rest"][length:]
    if scenario not in _FEATURE_OF:
        raise ValueError(f"{test_id}: add the scenario {scenario!r} to a feature in {__name__}")
    return _FEATURE_OF[scenario], column.title


def cells(outcomes: Mapping[str, bool]) -> Cells:
    """Return the cells of the tests that ran; ``outcomes`` says of each test id whether it passed."""
    found: Cells = {}
    for test_id, passed in outcomes.items():
        if (key := place(test_id)) is not None:
            found[key] = FAILED if not passed or found.get(key) == FAILED else PASSED
    return found


def render(known: Cells) -> str:
    """Return the table in Markdown."""
    titles = [column.title for column in COLUMNS]
    lines = ["| | " + " | ".join(titles) + " |", "|---" * (len(titles) + 1) + "|"]
    for feature in FEATURES:
        lines.append(f"| {feature} | " + " | ".join(known.get((feature, title), "") for title in titles) + " |")
    return "\n".join(lines)


def parse(lines: Iterable[str]) -> Cells:
    """Return the cells of a table that :func:`render` made."""
    found: Cells = {}
    for line in lines:
        feature, *values = (cell.strip() for cell in line.strip().strip("|").split("|"))
        for column, value in zip(COLUMNS, values, strict=False):
            if feature in FEATURES and value in (PASSED, FAILED):
                found[feature, column.title] = value
    return found


def table_in(page: str) -> str:
    """Return the table that stands between the two marks of a page."""
    return page.split(BEGIN, 1)[1].split(END, 1)[0].strip("\n")


def updated(page: str, outcomes: Mapping[str, bool]) -> str:
    """Return the page with the cells of these tests; the others stay."""
    known = parse(table_in(page).splitlines()) | cells(outcomes)
    head, rest = page.split(BEGIN, 1)
    return f"{head}{BEGIN}\n{render(known)}\n{END}{rest.split(END, 1)[1]}"
