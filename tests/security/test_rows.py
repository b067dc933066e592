"""Every row of every server names what its sender must be allowed; docs/security-design.md lists it."""

from __future__ import annotations

import re

import msgspec
import pytest

from pymq.broker import row_access
from pymq.broker.assembly.wiring import make_handlers, routes_in_role
from pymq.broker.request_row import SERVES
from pymq.broker.routes import broker_rows
from pymq.config import BrokerConfig
from pymq.config.values import RETENTION_KEYS
from pymq.errors import PymqError
from pymq.model.access import EVERY_NAME, Action
from pymq.namesrv.routes import ROUTE
from pymq.wire.access import Access, any_user, group, needs, topic
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Route
from pymq.wire.headers.admin import CloneGroupOffsetHeader, ConsumeStatsHeader, TopicHeader, UpdateConfigHeader
from pymq.wire.headers.pop import AckMessageHeader
from pymq.wire.headers.pull import PullMessageHeader
from pymq.wire.headers.route import RouteHeader
from tests.broker.world import World
from tests.security.rows import CLUSTER, ROLES, VALUES, needs_text, sample_header, sample_request, table_lines
from tests.tidy.sources import ROOT

ROWS = [pytest.param(row, id=f"{role} {row.name}") for role, rows in ROLES.items() for row in rows()]
# Rows that every proven user may send, each for a reason that its access states.
FOR_ANY_USER = {"CHECK_CLIENT_CONFIG"}
CHANGING = ("UPDATE_", "DELETE_", "CLEAN_", "PUT_", "WIPE_", "ADD_", "INVOKE_BROKER_TO_RESET", "CLONE_", "PYMQ_CHANGE")
# Named after a change, but part of a consumer's normal work.
CONSUMERS_OWN = {"UPDATE_CONSUMER_OFFSET"}


def texts(access: Access, header: object = None, body: bytes = b"", cluster: str = CLUSTER) -> list[str]:
    return [str(need) for need in access.needs(Command(1, body=body), header, cluster)]  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ROLES)
def test_the_page_lists_the_needs_of_every_row(role: str) -> None:
    text = (ROOT / "docs" / "security-design.md").read_text(encoding="utf-8")
    section = text.partition(f"### Requests to a {role}\n")[2].partition("\n#")[0]
    assert re.findall(r"^\| \d.*$", section, re.MULTILINE) == table_lines(role)


@pytest.mark.parametrize("row", ROWS)
def test_every_resource_that_a_header_names_is_needed(row: Route) -> None:
    """A topic or group in the header that no claim reads would be open to everybody."""
    if row.access.peers_only or row.header is None:
        return
    names = {field.name for field in msgspec.structs.fields(row.header)} & VALUES.keys()
    names -= {"producer_group"}  # it names the sender, no resource
    found = needs_text(row)
    missing = [name for name in names if not all(value in found for value in re.split("[;,]", VALUES[name]))]
    assert not missing or (missing == ["cluster_name"] and "DELETE_TOPIC" in row.name)


@pytest.mark.parametrize("row", ROWS)
def test_what_changes_something_needs_an_action_that_changes(row: Route) -> None:
    if row.access.peers_only or not row.name.startswith(CHANGING) or row.name in CONSUMERS_OWN:
        return
    actions = {
        action
        for need in row.access.needs(sample_request(row), sample_header(row.header), CLUSTER)
        for action in need.actions
    }
    assert actions & {Action.CREATE, Action.UPDATE, Action.DELETE}
    assert not actions & {Action.PUB, Action.SUB}


@pytest.mark.parametrize("row", ROWS)
def test_few_rows_are_for_any_user(row: Route) -> None:
    is_for_all = row.access == any_user()
    assert is_for_all == (row.name in FOR_ANY_USER)


@pytest.mark.parametrize("row", ROWS)
def test_a_body_without_sense_is_refused_or_names_nothing(row: Route) -> None:
    for body in (b"", b"{}", b"[]", b"null", b"\xff", b"{" * 5000):
        try:
            row.access.needs(Command(row.code, body=body), sample_header(row.header), CLUSTER)
        except PymqError:
            pass


def test_a_slave_asks_for_the_same_or_does_nothing() -> None:
    parts = World(brokerId=1).parts
    on_master = {row.code: row for row in ROLES["broker"]()}
    on_slave = routes_in_role(parts)
    Dispatcher(on_slave, "broker")
    served = {row.code for row in broker_rows(make_handlers(parts)) if row.on_slave == SERVES}
    assert {row.code for row in on_slave} == on_master.keys()
    for row in on_slave:
        assert row.access == (on_master[row.code].access if row.code in served else any_user())


def test_a_row_without_an_access_can_not_be_written() -> None:
    with pytest.raises(TypeError, match="access"):
        Route(Code.GET_TOPIC_CONFIG, TopicHeader, lambda command, header, peer: None)  # type: ignore[call-arg]


@pytest.mark.parametrize("access", [None, (), "open", (lambda: None)])
def test_a_row_whose_access_is_none_can_not_be_registered(access: object) -> None:
    row = Route(Code.GET_TOPIC_CONFIG, TopicHeader, lambda command, header, peer: None, access)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the row of GET_TOPIC_CONFIG says no access"):
        Dispatcher([row], "broker")


@pytest.mark.parametrize(
    ("header", "access", "missing"),
    [
        (TopicHeader, needs(group(Action.SUB)), "TopicHeader has no consumer_group"),
        (TopicHeader, needs(topic(Action.SUB, field="name"), group(Action.SUB)), "no name and no consumer_group"),
        (None, needs(topic(Action.SUB)), "without a header has no topic"),
    ],
)
def test_a_row_whose_access_reads_other_fields_can_not_be_registered(
    header: type[TopicHeader] | None, access: Access, missing: str
) -> None:
    row = Route(Code.GET_TOPIC_CONFIG, header, lambda command, header, peer: None, access)
    with pytest.raises(TypeError, match=missing):
        Dispatcher([row], "broker")


def test_an_access_without_needs_says_for_whom_it_is() -> None:
    with pytest.raises(AssertionError, match="any_user"):
        needs()


# -- single rules ------------------------------------------------------------------------------------------------------


def test_a_pull_of_a_retry_topic_needs_that_groups_permission() -> None:
    header = sample_header(PullMessageHeader, topic="%RETRY%other")
    assert texts(row_access.CONSUME, header) == ["Sub on Group:other", "Sub on Group:G"]


@pytest.mark.parametrize(
    ("read_from", "expected"),
    [
        ("T", ["Sub on Topic:T", "Sub on Group:G"]),
        ("%RETRY%G_T", ["Sub on Group:G"]),
        ("%RETRY%G+T", ["Sub on Group:G"]),
        ("%RETRY%G2+T", ["Sub on Group:G2", "Sub on Group:G"]),
    ],
)
def test_a_receipt_of_the_groups_own_retry_topics_needs_the_group_alone(read_from: str, expected: list[str]) -> None:
    assert texts(row_access.USE_RECEIPT, sample_header(AckMessageHeader, topic=read_from)) == expected


def test_fields_that_are_left_out_need_nothing() -> None:
    header = sample_header(ConsumeStatsHeader, topic=None, topic_list=None)
    assert texts(row_access.SEE_LAG, header) == ["Get on Group:G"]
    cloned = sample_header(CloneGroupOffsetHeader, topic="")
    assert texts(row_access.CLONE_OFFSETS, cloned) == ["Get on Group:G1", "Update on Group:G2"]


@pytest.mark.parametrize("row", ROWS)
def test_no_empty_name_takes_a_need_away(row: Route) -> None:
    """Only a field that may be left out may be empty without a need."""
    if row.header is None or not row.access.claims:
        return
    required = {field.name for field in msgspec.structs.fields(row.header) if field.required} & VALUES.keys()
    full = row.access.needs(sample_request(row), sample_header(row.header), CLUSTER)
    for name in required:
        found = row.access.needs(sample_request(row), sample_header(row.header, **{name: ""}), CLUSTER)
        assert len(found) == len(full)


@pytest.mark.parametrize("name", sorted(RETENTION_KEYS))
def test_a_change_of_retention_needs_the_permission_to_delete(name: str) -> None:
    both = [f"Update on Cluster:{CLUSTER}", f"Delete on Cluster:{CLUSTER}"]
    assert name in BrokerConfig.settings()
    assert texts(row_access.CHANGE_SETTINGS, UpdateConfigHeader(), f"{name}=1".encode()) == both
    assert texts(row_access.CHANGE_SETTINGS, UpdateConfigHeader(forget=f"a; {name}")) == both
    assert texts(row_access.CHANGE_SETTINGS, UpdateConfigHeader(), b"brokerPermission=4") == both[:1]


def test_every_user_may_ask_for_the_route_on_which_topics_are_made() -> None:
    for free in ("TBW102", "DefaultCluster_REPLY_TOPIC"):
        assert texts(ROUTE, RouteHeader(topic=free), cluster=EVERY_NAME) == []
    assert texts(ROUTE, RouteHeader(topic="%RETRY%g"), cluster=EVERY_NAME) == ["Sub or Get on Group:g"]
