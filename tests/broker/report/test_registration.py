"""Registrar: what name servers get and when, and a broker that serves without them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from pymq.broker.metadata.topics import TopicManager
from pymq.broker.report.registration import NAMED_SLAVES_MAX, RETRY_MS, Registrar, RegistrationRequests, named_slaves
from pymq.errors import RefusedError, UnreachableError
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_registration import body_crc32, decode_registration
from pymq.wire.bodies_replication import GONE, REFUSED, SlaveState
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.world import World

A, B = "127.0.0.1:1", "127.0.0.1:2"


class Servers:
    """Name servers that record what they get; those in ``away`` don't answer."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Command]] = []
        self.away: set[str] = set()
        self.during: list[object] = []
        self.refused: dict[str, str] = {}
        self.told: dict[str, str] = {}

    async def invoke_ok(self, address: str, command: Command, timeout_s: float = 3.0) -> Command:
        while self.during:
            self.during.pop()()  # type: ignore[operator]
        if address in self.away:
            raise UnreachableError(f"{address} is away")
        if address in self.refused:
            raise RefusedError(16, self.refused[address], address)
        self.got.append((address, command))
        return Command(0, ext=self.told)

    def addresses(self) -> list[str]:
        got, self.got = [address for address, _ in self.got], []
        return sorted(got)


@dataclass
class Registered:
    """A broker as its registrar sees it, a master without slaves unless a test says otherwise."""

    topics: TopicManager
    epoch: int = 0
    filter_servers: Callable[[], list[str]] = list
    slaves: Callable[[], list[str] | None] = lambda: None
    note_master: Callable[[str, str], None] = lambda master_address, ha_address: None
    note_refused: Callable[[str], None] = lambda why: None


class Setup:
    """A registrar over two recorded name servers."""

    def __init__(self, **settings: str) -> None:
        options: dict[str, Any] = {"namesrvAddr": f"{A};{B}", **settings}
        self.world = World(**options)
        self.servers = Servers()
        self.wakes = 0
        self.listen()

    def listen(self, **members: Any) -> None:
        """Make a registrar of a broker with these members."""
        self.requests = RegistrationRequests(self.world.config, self._woken)
        self.registrar = Registrar(
            self.world.parts.runtime,
            Registered(self.world.parts.metadata.topics, **members),
            client=self.servers,
            gather=asyncio.gather,
            address="127.0.0.1:10911",
            requests=self.requests,
        )

    def _woken(self) -> None:
        self.wakes += 1

    def round(self) -> list[str]:
        asyncio.run(self.registrar.register_all())
        return self.servers.addresses()


def test_every_name_server_gets_the_whole_table() -> None:
    setup = Setup()
    asyncio.run(setup.registrar.register_all())
    (first, command), (second, _) = setup.servers.got
    assert sorted([first, second]) == [A, B]
    assert command.code == RequestCode.REGISTER_BROKER
    assert command.ext["brokerAddr"] == "127.0.0.1:10911" and command.ext["haServerAddr"] == "127.0.0.1:10912"
    assert command.ext["brokerId"] == "0" and command.ext["clusterName"] == "DefaultCluster"
    assert int(command.ext["bodyCrc32"]) == body_crc32(command.body)
    told = decode_registration(command.body, compressed=False, version=479)
    topics = setup.world.parts.metadata.topics
    assert told.topics == topics.all() and told.data_version == topics.data_version
    assert len(told.topics) >= 2  # fewer are refused by Java's name servers


def test_name_servers_learn_the_filter_servers() -> None:
    setup = Setup()
    setup.listen(filter_servers=lambda: ["127.0.0.1:7", "127.0.0.1:8"])
    told = decode_registration(setup.registrar.registration().body, compressed=False, version=479)
    assert told.filter_servers == ["127.0.0.1:7", "127.0.0.1:8"]


def test_a_round_is_due_at_start_by_time_and_on_change() -> None:
    setup = Setup()
    assert setup.registrar.is_due()
    setup.round()
    assert not setup.registrar.is_due()
    setup.world.clock.advance(29_999)
    assert not setup.registrar.is_due()
    setup.world.clock.advance(1)
    assert setup.registrar.is_due()
    setup.round()
    setup.world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    assert setup.registrar.is_due() and setup.wakes == 1


def test_an_absent_server_delays_no_other_and_is_tried_again() -> None:
    setup = Setup()
    setup.servers.away = {A}
    assert setup.round() == [B]
    assert setup.registrar.unreachable == {A}
    setup.servers.away = set()
    assert setup.round() == [A, B]
    assert setup.registrar.unreachable == frozenset()


def test_a_server_that_is_away_is_tried_at_growing_intervals() -> None:
    setup = Setup()
    setup.servers.away = {A}
    for pause_ms in (1000, 2000, 4000, 8000, 16_000, 30_000, 30_000):
        setup.round()
        setup.world.clock.advance(pause_ms - 1)
        assert not setup.registrar.is_due()
        setup.world.clock.advance(1)
        assert setup.registrar.is_due()
    setup.servers.away = set()
    setup.round()
    setup.world.clock.advance(29_999)
    assert not setup.registrar.is_due()
    setup.world.clock.advance(1)
    setup.servers.away = {A}
    setup.round()
    setup.world.clock.advance(1000)
    assert setup.registrar.is_due()


def test_a_server_whose_connection_ends_gets_a_registration_soon() -> None:
    setup = Setup()
    setup.round()
    setup.registrar.note_lost("127.0.0.1:3")  # another broker
    setup.world.clock.advance(RETRY_MS)
    assert not setup.registrar.is_due()
    setup.registrar.note_lost(B)
    setup.world.clock.advance(RETRY_MS - 1)
    assert not setup.registrar.is_due()
    setup.world.clock.advance(1)
    assert setup.registrar.is_due() and setup.round() == [A, B]
    setup.world.clock.advance(29_999)
    assert not setup.registrar.is_due(), "once for each loss"


def test_a_connection_that_ends_during_a_round_makes_another_soon() -> None:
    setup = Setup()
    setup.servers.during = [lambda: setup.registrar.note_lost(A)]
    setup.round()
    setup.world.clock.advance(RETRY_MS)
    assert setup.registrar.is_due()


def test_a_change_during_a_round_makes_another() -> None:
    setup = Setup()
    topics = setup.world.parts.metadata.topics
    setup.servers.during.append(lambda: topics.put([TopicConfig(topic_name="T")]))
    assert setup.round() == [A, A, B, B]
    assert not setup.registrar.is_due()


@pytest.mark.parametrize("away", [set(), {A, B}])
def test_waiters_are_answered_after_the_round_without_any_server(away: set[str]) -> None:
    setup = Setup()
    setup.round()
    setup.servers.away = away
    heard: list[str] = []
    setup.requests.when_registered(lambda: heard.append("now"))
    assert not heard and setup.registrar.is_due()
    setup.round()
    assert heard == ["now"]


def test_without_name_servers_there_is_no_wait() -> None:
    setup = Setup(namesrvAddr="")
    heard: list[str] = []
    setup.requests.when_registered(lambda: heard.append("now"))
    assert heard == ["now"] and setup.round() == []


def test_a_broker_without_write_permission_says_so_in_every_topic() -> None:
    setup = Setup(brokerPermission="4")
    told = decode_registration(setup.registrar.registration().body, compressed=False, version=479)
    assert {topic.perm & 2 for topic in told.topics.values()} == {0}
    assert told.topics["BenchmarkTest"] == msgspec.structs.replace(
        setup.world.parts.metadata.topics.require("BenchmarkTest"), perm=4
    )


def test_a_slave_learns_the_address_of_its_master() -> None:
    heard: list[tuple[str, str]] = []
    setup = Setup(brokerId="1")
    setup.listen(note_master=lambda address, ha_address: heard.append((address, ha_address)))
    setup.round()
    assert heard == []
    setup.servers.told = {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
    setup.round()
    assert heard == [("10.0.0.1:10911", "10.0.0.1:10912")] * 2


def test_a_changed_refusal_is_reported_and_tried_again_soon() -> None:
    heard: list[str] = []
    setup = Setup()
    setup.listen(note_refused=heard.append)
    setup.servers.refused = {A: "10.0.0.2:10911 is master"}
    setup.round()
    assert len(heard) == 1 and "10.0.0.2:10911 is master" in heard[0]
    assert list(setup.registrar.refused) == [A] and not setup.registrar.unreachable
    setup.world.clock.advance(RETRY_MS - 1)
    assert not setup.registrar.is_due()
    setup.world.clock.advance(1)
    assert setup.registrar.is_due()
    setup.servers.refused = {}
    setup.round()
    assert heard[-1] == "" and setup.registrar.refused == {}
    setup.world.clock.advance(RETRY_MS)
    assert not setup.registrar.is_due()


def test_a_round_can_be_requested_at_once() -> None:
    setup = Setup()
    setup.round()
    setup.requests.register_now()
    assert setup.registrar.is_due() and setup.wakes == 1


def test_the_epoch_and_the_address_for_slaves_are_registered() -> None:
    setup = Setup(brokerIP2="10.1.1.1", haListenPort="7000")
    setup.listen(epoch=8)
    ext = setup.registrar.registration().ext or {}
    assert (ext["masterEpoch"], ext["haServerAddr"]) == ("8", "10.1.1.1:7000")


def test_unregistering() -> None:
    setup = Setup()
    setup.servers.away = {B}
    asyncio.run(setup.registrar.unregister_all())
    ((address, command),) = setup.servers.got
    assert address == A and command.code == RequestCode.UNREGISTER_BROKER
    assert command.ext == {
        "brokerName": "broker-a",
        "brokerAddr": "127.0.0.1:10911",
        "clusterName": "DefaultCluster",
        "brokerId": "0",
    }


def slave(broker_id: int, address: str, state: str, ack_offset: int = 100) -> SlaveState:
    return SlaveState(broker_id=broker_id, address=address, state=state, ack_offset=ack_offset)


def test_a_master_names_slaves_that_joined_connected_ones_first() -> None:
    states = [
        slave(2, "h:2", GONE),
        slave(3, "h:3", REFUSED),
        slave(-1, "h:9", "following"),
        slave(1, "h:1", "following"),
    ]
    states.append(slave(4, "h:4", "connected", ack_offset=0))
    assert named_slaves(states) == ["h:1", "h:2"]
    many = [slave(number, f"h:{number}", GONE) for number in range(1, NAMED_SLAVES_MAX + 2)]
    assert len(named_slaves(many)) == NAMED_SLAVES_MAX


def test_a_new_slave_is_named_at_once() -> None:
    setup = Setup()
    slaves = ["h:1"]
    setup.listen(slaves=lambda: slaves)
    assert setup.round() == [A, B]
    assert not setup.registrar.is_due()
    slaves.append("h:2")
    assert setup.registrar.is_due()
    asyncio.run(setup.registrar.register_all())
    assert [command.ext["slaveAddresses"] for _, command in setup.servers.got] == ["h:1;h:2"] * 2
    slaves.pop()
    assert not setup.registrar.is_due(), "a name server remembers it for longer anyway"


def test_a_slave_that_comes_during_a_round_is_named_by_the_next_one_at_once() -> None:
    setup = Setup()
    slaves = ["h:1"]
    setup.listen(slaves=lambda: slaves)
    setup.servers.during = [lambda: slaves.append("h:2")]
    asyncio.run(setup.registrar.register_all())
    assert [command.ext["slaveAddresses"] for _, command in setup.servers.got[-2:]] == ["h:1;h:2"] * 2
    assert not setup.registrar.is_due()


def test_a_slave_names_none() -> None:
    setup = Setup()
    assert "slaveAddresses" not in setup.registrar.registration().ext
