"""A liar: a peer on its own machine that says anything in the requests of replication and registration.

It asks brokers for their true status, as any peer can, and builds its lies on that. It sends requests to brokers, HA
ports and name servers, and answers requests at its own address, which it names and registers wherever it can.

Two things it does not do, because only a proof of identity could stop them. It sends no request of an operator
(9104) and none of a client. And it is no slave: it registers under any id, but never copies a master's log from a
place that it got under its own name and reports that it has it. Such a peer is a slave for every broker, whatever it
means to do with the log. For the same reason it does not pass for a RocketMQ broker (code 3): those prove nothing.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import msgspec

from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_registration import encode_registration
from pymq.wire.bodies_replication import JoinAnswer, ReplicationStatus, StatusRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, decode_command, encode_command
from pymq.wire.framing import FrameBuffer
from pymq.wire.ha import encode_head, encode_report
from pymq.wire.reply import Reply
from pymq.wire.streams import Stream
from tests.simulation.clients import World
from tests.simulation.master_slave import forging
from tests.simulation.master_slave.forging import Facts
from tests.simulation.remoting import SimClient
from tests.simulation.timeline import SECOND, Process

PORT, HA_PORT = 10911, 10912
CLUSTER = "DefaultCluster"
LEARN_US = 2 * SECOND
ASK_MS = 3000
HA_CONNECTIONS_MAX = 80  # more than a master takes


class Liar:
    """One peer. Everything it does is drawn from ``rng``, and counted in ``history.lies``."""

    def __init__(
        self, name: str, host: str, rng: random.Random, world: World, brokers: list[str], pace_us: int
    ) -> None:
        """``brokers`` are the addresses of the true brokers, ``pace_us`` is the average time between two lies."""
        self.host = host
        self.address = f"{host}:{PORT}"
        self.process = Process(world.timeline, name, host)
        self._network, self._history, self._name_servers = world.network, world.history, world.name_servers
        self._rng = rng
        self._facts = Facts(CLUSTER, world.broker_name, self.address, f"{host}:{HA_PORT}", brokers)
        self._clients = [SimClient(self._network, self.process) for _ in range(3)]
        self._ha_streams: list[_HaLie] = []
        self._tokens: list[int] = []
        self._pace_us = pace_us
        self.started_us = -1
        # kind of lie -> how often it is told, relative to the others; and what tells it
        self._kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "names itself as a master": (6, lambda: self._claim(self.address)),
            "names another broker as a master": (2, lambda: self._claim(self._any_broker())),
            "asks to join": (5, self._ask_to_join),
            "connects to an HA port": (5, self._connect_to_ha),
            "asks for tables as a slave": (2, self._ask_for_tables),
            "registers as the master": (6, lambda: self._register(0, self.address)),
            "registers as a slave": (4, lambda: self._register(rng.randrange(1, forging.ID_MAX), self.address)),
            "registers another broker": (4, lambda: self._register(rng.randrange(3), self._any_broker())),
            "unregisters another broker": (3, self._unregister),
            "registers another brokers topic": (1, self._register_topic),
            "keeps another broker alive": (1, self._keep_alive),
            "ends a connection": (3, self._end_connection),
        }

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen, learn, and begin to lie."""
        self.started_us = self._network.timeline.now_us
        self._network.listen(self.process, self.address, lambda peer: _Answering(self))
        self._network.listen(self.process, f"{self.host}:{HA_PORT}", lambda peer: _HaAnswering(self))
        self._learn()
        self._plan_next()

    def stop(self) -> None:
        """End the process. Its connections end, and with them what it registered."""
        if self.process.is_alive:
            self._network.process_died(self.process, with_power=False)
            self.process.die()

    def _plan_next(self) -> None:
        self.process.after(int(self._rng.expovariate(1) * self._pace_us), self._next)

    def _next(self) -> None:
        kind = self._rng.choices(list(self._kinds), [weight for weight, _ in self._kinds.values()])[0]
        self._kinds[kind][1]()
        self.count(kind)
        self._plan_next()

    def count(self, kind: str) -> None:
        """Record one lie."""
        self._history.lies[kind] += 1

    def _learn(self) -> None:
        """Ask every broker for its true status, as often as an operator's tool does."""
        for address in self._facts.brokers:
            self._clients[0].ask(
                address, Command(RequestCode.PYMQ_GET_REPLICATION_STATUS), self._learner(address), ASK_MS
            )
        self.process.after(LEARN_US, self._learn)

    def _learner(self, address: str) -> Callable[[Command | str], None]:
        def learned(answer: Command | str) -> None:
            if not isinstance(answer, str) and answer.code == 0:
                self._facts.statuses[address] = msgspec.json.decode(answer.body, type=ReplicationStatus)

        return learned

    # -- requests to brokers ------------------------------------------------------------------------------------

    def _any_broker(self) -> str:
        return self._rng.choice(self._facts.brokers)

    def _send(self, address: str, command: Command, on_answer: Callable[[Command], None] = lambda answer: None) -> None:
        client = self._rng.choice(self._clients)
        client.ask(address, command, lambda answer: None if isinstance(answer, str) else on_answer(answer), ASK_MS)

    def _claim(self, master: str) -> None:
        body = msgspec.json.encode(StatusRequest(master=master))
        self._send(self._any_broker(), Command(RequestCode.PYMQ_GET_REPLICATION_STATUS, body=body))

    def _ask_to_join(self) -> None:
        def joined(answer: Command) -> None:
            if answer.code == 0:
                self._tokens.append(msgspec.json.decode(answer.body, type=JoinAnswer).token)
                self.count("was given a token")

        body = forging.a_join_request(self._rng, self._facts)
        self._send(self._any_broker(), Command(RequestCode.PYMQ_JOIN_MASTER, body=body), joined)

    def _ask_for_tables(self) -> None:
        body = forging.a_table_request(self._rng, self._facts)
        self._send(self._any_broker(), Command(RequestCode.PYMQ_COPY_METADATA, body=body))

    def _connect_to_ha(self) -> None:
        """Say anything on HA connections, of which some stay open."""
        host = self._any_broker().rpartition(":")[0]
        for _ in range(self._rng.choice((1, 1, 1, 10))):
            if len(self._ha_streams) >= HA_CONNECTIONS_MAX:
                self._ha_streams.pop(0).end()
            lie = _HaLie(self._ha_numbers(), self._rng.random() < 0.3)
            self._ha_streams.append(lie)
            self._network.connect(self.process, f"{host}:{HA_PORT}", lie)

    def _ha_numbers(self) -> list[int]:
        """Return what to send on an HA connection: a token that was given to a join request, and no report that it
        has the log; or invented tokens and reports."""
        if self._tokens and self._rng.random() < 0.2:
            return [self._tokens.pop(self._rng.randrange(len(self._tokens))), *self._rng.choice(([], [1]))]
        token = [-self._rng.getrandbits(self._rng.choice((1, 40, 56)))] if self._rng.random() < 0.7 else []
        return [*token, *(forging.an_offset(self._rng, self._facts) for _ in range(self._rng.randrange(4)))]

    # -- requests to name servers -------------------------------------------------------------------------------

    def _identity(self, broker_id: int, address: str) -> dict[str, str]:
        rng, facts = self._rng, self._facts
        return {
            "brokerName": facts.broker_name if rng.random() < 0.9 else "another",
            "brokerAddr": address,
            "clusterName": facts.cluster if rng.random() < 0.9 else "another",
            "brokerId": str(broker_id),
        }

    def _register(self, broker_id: int, address: str) -> None:
        rng, real = self._rng, self._facts.newest()
        epoch = real.epoch_history[-1].epoch if real is not None and real.epoch_history else 0
        fields = self._identity(broker_id, address) | {
            "haServerAddr": rng.choice((self._facts.ha_address, "", address)),
            "masterEpoch": str(rng.choice((0, 1, epoch, epoch + 1, epoch + 1, epoch + 2, *forging.HUGE_EPOCHS))),
            "heartbeatTimeoutMillis": str(rng.choice((1000, 120_000, 2**40))),
            "enableActingMaster": rng.choice(("true", "false")),
        }
        if rng.random() < 0.5:
            fields["slaveAddresses"] = rng.choice(("", self.address, ";".join(self._facts.brokers)))
        topics = [
            TopicConfig(topic_name=name, read_queue_nums=rng.choice((0, 1, 8)), perm=rng.choice((0, 4, 6)))
            for name in ("Orders", "TBW102", "Invented")
        ]
        body = encode_registration(topics, DataVersion(rng.getrandbits(30), rng.choice((0, 0, 1, 2**40)), 0))
        self._send(self._any_name_server(), Command(RequestCode.REGISTER_BROKER, ext=fields, body=body, version=479))

    def _unregister(self) -> None:
        fields = self._identity(self._rng.randrange(4), self._any_broker())
        self._send(self._any_name_server(), Command(RequestCode.UNREGISTER_BROKER, ext=fields))

    def _register_topic(self) -> None:
        share = {"brokerName": self._facts.broker_name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 4}
        body = msgspec.json.encode({"queueDatas": [share]})
        command = Command(RequestCode.REGISTER_TOPIC_IN_NAMESRV, ext={"topic": "Orders"}, body=body)
        self._send(self._any_name_server(), command)

    def _keep_alive(self) -> None:
        fields = {"clusterName": CLUSTER, "brokerAddr": self._any_broker(), "brokerName": self._facts.broker_name}
        self._send(self._any_name_server(), Command(RequestCode.BROKER_HEARTBEAT, ext=fields))

    def _any_name_server(self) -> str:
        return self._rng.choice(self._name_servers)

    def _end_connection(self) -> None:
        """End what one of its clients has open, or an HA connection."""
        if self._ha_streams and self._rng.random() < 0.5:
            self._ha_streams.pop(self._rng.randrange(len(self._ha_streams))).end()
        else:
            self._rng.choice(self._clients).close()

    # -- answers ------------------------------------------------------------------------------------------------

    def answer(self, command: Command) -> Reply:
        """Answer a request that came to the liar's address."""
        rng, facts = self._rng, self._facts
        made: dict[int, Callable[[], bytes]] = {
            RequestCode.PYMQ_GET_REPLICATION_STATUS: lambda: forging.a_status(rng, facts),
            RequestCode.PYMQ_JOIN_MASTER: lambda: forging.a_join_answer(rng, facts, command.body),
            RequestCode.PYMQ_COPY_METADATA: lambda: forging.some_tables(rng, facts),
            RequestCode.PYMQ_LIST_LOG_DIGESTS: lambda: forging.some_digests(rng, facts),
            RequestCode.PYMQ_READ_LOG: lambda: rng.randbytes(rng.choice((0, 100, 65_536))),
        }
        make = made.get(command.code)
        if make is None:
            return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "not now")
        self.count(f"answers {command.code}")
        code = 0 if rng.random() < 0.9 else rng.choice((1, 2, ResponseCode.SERVICE_NOT_AVAILABLE))
        return Reply(code, body=make())

    def frames(self) -> bytes:
        """Return what a slave gets that connects to the liar's HA port."""
        self.count("sends a log")
        rng, parts = self._rng, list[bytes]()
        for _ in range(rng.randrange(1, 4)):
            data = rng.randbytes(rng.choice((0, 0, 100, 5000)))
            parts += [encode_head(min(forging.an_offset(rng, self._facts), 2**62), len(data)), data]
        return b"".join(parts)


class _Connection:
    """The liar's end of one connection. It ignores what comes."""

    _stream: Stream | None = None

    def opened(self, stream: Stream) -> None:
        self._stream = stream

    def received(self, data: bytes) -> None: ...

    def writable(self) -> None: ...

    def closed(self, why: str) -> None: ...


class _Answering(_Connection):
    """The server's side of one connection to the liar's address."""

    def __init__(self, liar: Liar) -> None:
        self._liar = liar
        self._frames = FrameBuffer()

    def received(self, data: bytes) -> None:
        for payload in self._frames.feed(data):
            command = decode_command(payload)
            if not command.is_response and not command.is_oneway and self._stream is not None:
                self._stream.write(encode_command(self._liar.answer(command).to_command(command)))


class _HaAnswering(_Connection):
    """The server's side of one connection to the liar's HA port."""

    def __init__(self, liar: Liar) -> None:
        self._liar = liar

    def received(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.write(self._liar.frames())


class _HaLie(_Connection):
    """An HA connection that the liar opens: it sends its numbers and reads nothing."""

    def __init__(self, numbers: list[int], is_short: bool) -> None:
        self._raw = b"".join(
            encode_report(number) if -(2**63) <= number < 2**63 else struct.pack(">Q", number) for number in numbers
        )
        self._is_short = is_short

    def opened(self, stream: Stream) -> None:
        super().opened(stream)
        if self._raw:
            stream.write(self._raw)
        if self._is_short:
            stream.close()

    def closed(self, why: str) -> None:
        self._stream = None

    def end(self) -> None:
        if self._stream is not None:
            self._stream.close()
