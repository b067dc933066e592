"""Clients' sessions: whose they are, and what they may take of the memory budget."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.protobuf")

from pymq.clock import ManualClock
from pymq.net.memory_budget import GRPC_CLIENTS, MemoryBudget
from pymq.proxy.clients import UNREAD_COMMANDS_BYTES_MAX, UNREAD_COMMANDS_MAX, Clients, Stream
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.sessions import (
    SESSION_BYTES,
    SETTINGS_SHARE,
    SILENT_MS_MAX,
    STRANGER_COUNT_MAX,
    Session,
    Sessions,
    Strangers,
)
from pymq.proxy.settings import ENTRY_BYTES, SETTINGS_ENTRIES_MAX, check_settings, settings_size
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.guard import Guard
from pymq.security.identities import User, Users
from pymq.security.policies import Policies
from pymq.security.signature import Secret

LIMIT_BYTES = 400_000  # of which sessions get a quarter


def session(client_id: str, host: str, size_bytes: int, *, is_open: bool = True) -> Session:
    stream = Stream() if is_open else None
    return Session(client_id, m.Settings(), "", "", 0, host=host, size_bytes=size_bytes, stream=stream)


def test_sessions_count_in_the_budget_until_they_are_forgotten() -> None:
    budget = MemoryBudget(LIMIT_BYTES)
    sessions = Sessions(budget)
    sessions.put(session("a", "h", 1_000))
    sessions.put(session("a", "h", 3_000))
    assert budget.held[GRPC_CLIENTS] == sessions.size_bytes == 3_000 + SESSION_BYTES
    sessions.put(session("b", "i", 1_000))
    sessions.remove("a")
    assert len(sessions.silent(10**9)) == 1
    assert budget.held[GRPC_CLIENTS] == 0 and len(sessions) == 0
    assert sessions.remove("a") is None


def test_beyond_their_share_those_of_the_greediest_host_go() -> None:
    budget = MemoryBudget(LIMIT_BYTES)
    sessions, gone = Sessions(budget), list[str]()
    sessions.on_evicted = lambda each: gone.append(each.client_id)
    for number in range(5):
        sessions.put(session(f"honest-{number}", f"host-{number}", 2_000))
    sessions.put(session("left", "greedy", 10_000, is_open=False))
    sessions.put(session("small", "greedy", 1_000))
    for number in range(3):
        sessions.put(session(f"large-{number}", "greedy", 19_000))
    assert gone == [] and sessions.size_bytes <= LIMIT_BYTES // SETTINGS_SHARE
    sessions.put(session("last", "greedy", 19_500))
    assert gone[0] == "left", "one that has no stream goes first"
    assert gone[1:] == ["last"][: len(gone) - 1], "then the largest"
    assert sessions.size_bytes <= LIMIT_BYTES // SETTINGS_SHARE
    assert all(sessions.find(f"honest-{number}") is not None for number in range(5))
    assert budget.held[GRPC_CLIENTS] == sessions.size_bytes


def test_a_session_belongs_to_its_user() -> None:
    sessions = Sessions()
    sessions.put(Session("c", m.Settings(), "", "", 0, user="owner"))
    assert sessions.touch("c", "owner", 5) is not None
    with pytest.raises(ProxyRefusal) as caught:
        sessions.touch("c", "other", 9)
    assert caught.value.code == Code.FORBIDDEN
    found = sessions.find("c")
    assert found is not None and found.seen_ms == 5
    assert sessions.touch("d", "other", 9) is None


def test_settings_have_so_many_entries_at_most() -> None:
    settings = m.Settings()
    for _ in range(SETTINGS_ENTRIES_MAX):
        settings.publishing.topics.add(name="T")
    assert check_settings(settings) == ""
    assert settings_size(settings) == settings.ByteSize() + ENTRY_BYTES * SETTINGS_ENTRIES_MAX
    settings.publishing.topics.add(name="T")
    with pytest.raises(ProxyRefusal) as caught:
        check_settings(settings)
    assert caught.value.code == Code.BAD_REQUEST


def command(size_bytes: int) -> object:
    found = m.TelemetryCommand()
    found.verify_message_command.message.body = bytes(size_bytes)
    return found


def test_a_stream_keeps_so_much_for_a_client_that_reads_nothing() -> None:
    stream = Stream()
    assert stream.send(command(2 * UNREAD_COMMANDS_BYTES_MAX)), "one of any size is taken"
    assert not stream.send(command(1))
    many = Stream()
    assert all(many.send(command(10)) for _ in range(UNREAD_COMMANDS_MAX))
    assert not many.send(command(10))
    large = Stream()
    assert large.send(command(UNREAD_COMMANDS_BYTES_MAX // 2)) and not large.send(
        command(UNREAD_COMMANDS_BYTES_MAX // 2)
    )


def test_a_client_known_by_its_heartbeats_belongs_to_the_first_user_until_it_is_silent() -> None:
    strangers = Strangers()
    strangers.heard("a", "owner", 0)
    strangers.heard("a", "other", SILENT_MS_MAX)
    assert strangers.knows("a", "owner") and not strangers.knows("a", "other") and not strangers.knows("b", "owner")
    strangers.heard("b", "owner", 1)
    assert strangers.silent(SILENT_MS_MAX - 1) == []
    assert strangers.silent(SILENT_MS_MAX) == ["a"]
    assert not strangers.knows("a", "owner") and strangers.knows("b", "owner")


def test_the_number_of_clients_known_by_their_heartbeats_is_limited() -> None:
    strangers = Strangers()
    for number in range(STRANGER_COUNT_MAX + 1):
        strangers.heard(f"client{number}", "", 0)
    assert strangers.knows(f"client{STRANGER_COUNT_MAX - 1}", "")
    assert not strangers.knows(f"client{STRANGER_COUNT_MAX}", "")
    strangers.remove("client0")
    strangers.heard("late", "", 0)
    assert strangers.knows("late", "")


def test_a_client_that_sends_settings_is_no_stranger_any_more() -> None:
    sessions = Sessions()
    sessions.strangers.heard("a", "", 0)
    sessions.put(session("a", "h", 1_000))
    assert not sessions.strangers.knows("a", "") and sessions.strangers.silent(10**9) == []


def test_sessions_end_with_their_user() -> None:
    left: list[str] = []
    sessions = Sessions()
    clients = Clients(
        None,  # type: ignore[arg-type]
        sessions,
        ManualClock(),
        lambda each: left.append(each.client_id),
        lambda each: None,
        lambda call, command: None,
    )
    users = Users([User("ada", Secret("s")), User("bob", Secret("s"))])
    gatekeeper = Gatekeeper(Guard(users, Policies(), "east"))
    for user in ("ada", "bob"):
        proven = gatekeeper.prove_call(user, lambda secret: True, "10.0.0.1:5")
        sessions.put(Session(user, m.Settings(), "", "", 0, user=user, proven=proven, stream=Stream()))
        sessions.strangers.heard(f"{user}-new", user, 0)
    gatekeeper.add_listener(
        lambda: clients.forget_unproven(gatekeeper.is_still_there, [user.name for user in gatekeeper.guard.users])
    )
    gatekeeper.replace(Guard(Users([User("ada", Secret("s")), User("bob", Secret("s"))]), Policies(), "east"))
    assert left == [], "as before"
    stream = sessions.all()[1].stream
    gatekeeper.replace(Guard(Users([User("ada", Secret("s"))]), Policies(), "east"))
    assert left == ["bob"] and sessions.find("bob") is None and sessions.find("ada") is not None
    assert isinstance(stream, Stream) and asyncio.run(stream.next()) is None
    assert sessions.strangers.knows("ada-new", "ada") and not sessions.strangers.knows("bob-new", "bob")
