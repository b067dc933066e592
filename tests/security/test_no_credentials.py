"""No sequence of requests without credentials changes anything of a secured server, or reads a message."""

from __future__ import annotations

from functools import cache
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.security.gatekeeper import Gatekeeper
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_ONEWAY, SERIALIZE_JSON, SERIALIZE_ROCKETMQ, Command, decode_command, encode_command
from pymq.wire.dispatch import Dispatcher
from pymq.wire.header import encode_header
from tests.broker.assembly.test_security import NAMES, callers, credentials, guard
from tests.broker.world import FakePeer, World
from tests.security.rows import NAME_SERVER, ROLES, sample_header, sample_request

SECRET_BODY: Final = b"a body that only consumers of T may read"
EXAMPLES: Final = 30
# What an administrator sees of everything that requests can change.
STATE: Final = (
    Code.GET_ALL_TOPIC_CONFIG,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    Code.GET_ALL_CONSUMER_OFFSET,
    Code.GET_ALL_DELAY_OFFSET,
    Code.GET_BROKER_CONFIG,
    Code.GET_ALL_MESSAGE_REQUEST_MODE,
    Code.GET_ALL_PRODUCER_INFO,
)


@cache
def samples(role: str) -> list[tuple[int, dict[str, str], bytes]]:
    """Return code, fields and body of a good request for each row of a role."""
    found = []
    for row in ROLES[role]():
        header = sample_header(row.header)
        found.append((row.code, encode_header(header) if header is not None else {}, sample_request(row).body))
    return found


@st.composite
def unproven(draw: st.DrawFn, role: str) -> Command:
    """Return a request of the role's table, or of none, that nothing proves."""
    code, ext, body = draw(st.sampled_from(samples(role)))
    code = draw(st.one_of(st.just(code), st.just(code), st.integers(0, 400_000)))
    ext = {
        **ext,
        **draw(
            st.dictionaries(st.sampled_from(["topic", "b", "offset", "queueId", "e"]), st.sampled_from(["T", "0", "1"]))
        ),
    }
    command = Command(
        code,
        ext=ext,
        body=draw(st.one_of(st.just(body), st.just(SECRET_BODY), st.binary(max_size=40))),
        flag=draw(st.sampled_from([0, FLAG_ONEWAY])),
        serialize=draw(st.sampled_from([SERIALIZE_JSON, SERIALIZE_ROCKETMQ])),
    )
    how = draw(st.sampled_from(["nothing", "wrong secret", "unknown user", "changed", "cut"]))
    name = draw(st.sampled_from(NAMES))
    if how == "wrong secret":
        credentials(name, "another-secret").sign(command)
    elif how == "unknown user":
        credentials("servers-or-so").sign(command)
    elif how == "changed":
        credentials(name).sign(command)
        command.body += b"!"
    elif how == "cut":
        credentials(name).sign(command)
        command.ext = {**command.ext, "Signature": command.ext["Signature"][:-1]}
    return command


def state_of(world: World, gatekeeper: Gatekeeper) -> list[object]:
    caller = callers(world, gatekeeper)["administrator"]
    seen = [caller.ok(code) for code in STATE]
    return [world.parts.store.physical_max_offset, *((reply.ext, reply.body) for reply in seen)]


class Secured:
    """A broker with a message, which keeps its state through all examples."""

    def __init__(self) -> None:
        self.world = World()
        self.gatekeeper = Gatekeeper(guard())
        caller = callers(self.world, self.gatekeeper)["administrator"]
        caller.ok(17, topic="T", readQueueNums=1, writeQueueNums=1, perm=6, defaultTopic="TBW102")
        self.world.put("T", SECRET_BODY)
        self.dispatcher = broker_dispatcher(self.world.parts, self.gatekeeper)
        self.fast_path = self.world.parts.requests.secured_fast_path(self.gatekeeper)
        self.before = state_of(self.world, self.gatekeeper)


@cache
def broker() -> Secured:
    return Secured()


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(unproven("broker"), min_size=1, max_size=12))
def test_a_broker_changes_and_shows_nothing(commands: list[Command]) -> None:
    peer, secured = FakePeer(), broker()
    for command in commands:
        payload = encode_command(command)[4:]
        assert not secured.fast_path(peer, payload)  # type: ignore[arg-type]
        reply = secured.dispatcher.dispatch(peer, decode_command(payload))
        assert reply is not None and reply.code == ResponseCode.NO_PERMISSION
        assert not reply.body and not reply.ext
    secured.world.parts.end_turn()
    assert not peer.answers and not peer.frames
    assert state_of(secured.world, secured.gatekeeper) == secured.before


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(unproven(NAME_SERVER), min_size=1, max_size=12))
def test_a_name_server_hands_nothing_on_to_a_handler(commands: list[Command]) -> None:
    asked: list[int] = []
    rows = [
        row._replace(handler=lambda command, header, peer: asked.append(command.code)) for row in ROLES[NAME_SERVER]()
    ]
    dispatcher = Dispatcher(rows, NAME_SERVER, gate=Gatekeeper(guard()))
    for command in commands:
        reply = dispatcher.dispatch(FakePeer(), decode_command(encode_command(command)[4:]))
        assert reply is not None and (reply.code, reply.body) == (ResponseCode.NO_PERMISSION, b"")
    assert not asked
