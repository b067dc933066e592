"""A producer of transactions against a broker's parts: sends half messages and ends them."""

from __future__ import annotations

from typing import Any

from pymq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage
from pymq.model.tables import TopicConfig
from pymq.model.transactions import COMMIT, ROLLBACK
from pymq.wire.bodies_client import HeartbeatData, ProducerData, encode_body
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command, encode_command
from pymq.wire.reply import Reply
from tests.broker.world import Caller, FakePeer, World

GROUP = "PG"
HALF, OP = HALF_TOPIC, OP_HALF_TOPIC


def world_with_topic(**settings: Any) -> World:
    """Return a world with the topic T of 4 queues."""
    world = World(**settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    return world


class Half:
    """Where a half message is, from the answer to its send."""

    def __init__(self, answer: Command) -> None:
        self.queue_offset = int(answer.ext["queueOffset"])
        self.physical_offset = int(answer.ext["msgId"][16:], 16)
        self.transaction_id = answer.ext["transactionId"]
        self.message_id = answer.ext["msgId"]
        self.answer = answer


class TransactionProducer:
    """One client of the group. ``peer.pushed`` has what the broker asks it.

    While ``is_fast``, its requests take the fast path if that takes them, as those of a connection do.
    """

    def __init__(self, world: World, group: str = GROUP, *, joins: bool = True, is_fast: bool = False) -> None:
        self.is_fast = is_fast
        self.world = world
        self.group = group
        self.caller = Caller(world)
        self.peer: FakePeer = self.caller.peer
        if joins:
            data = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name=group)])
            self.caller.ok(Code.HEART_BEAT, encode_body(data))

    def half_fields(self, queue_id: int = 1, topic: str = "T", **properties: str) -> dict[str, Any]:
        """Return the header of a half message's send."""
        given = {"TRAN_MSG": "true", "PGROUP": self.group, "UNIQ_KEY": "KEY", **properties}
        return {
            "a": self.group, "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 4, "g": self.world.clock.now_ms(),
            "h": 9, "i": encode_properties(given).decode(),
        }  # fmt: skip

    def ask_half(self, body: bytes = b"m", queue_id: int = 1, **properties: str) -> None:
        """Send a half message without the end of the turn."""
        fields = self.half_fields(queue_id, **properties)
        assert self._ask(Code.SEND_MESSAGE_V2, body, **fields) is None

    def half(self, body: bytes = b"m", queue_id: int = 1, **properties: str) -> Half:
        """Send a half message and return its place."""
        self.ask_half(body, queue_id, **properties)
        self.world.parts.end_turn()
        answer = self.peer.frames.pop()
        assert answer.code == 0, answer.remark
        return Half(answer)

    def end(self, half: Half, state: int = COMMIT, **changes: Any) -> tuple[int, str]:
        """End a transaction; return code and remark of the answer."""
        fields = {
            "producerGroup": self.group,
            "tranStateTableOffset": half.queue_offset,
            "commitLogOffset": half.physical_offset,
            "commitOrRollback": state,
            "fromTransactionCheck": "false",
            "msgId": half.transaction_id,
            **changes,
        }
        reply = self._ask(Code.END_TRANSACTION, **fields)
        self.world.parts.end_turn()
        if reply is not None:
            return reply.code, reply.remark or ""
        answer = self.peer.frames.pop()
        return answer.code, answer.remark or ""

    def commit(self, half: Half) -> None:
        assert self.end(half, COMMIT)[0] == 0

    def roll_back(self, half: Half) -> None:
        assert self.end(half, ROLLBACK)[0] == 0

    def _ask(self, code: int, body: bytes = b"", **ext: object) -> Reply | None:
        fields: dict[str, Any] = {name: str(value) for name, value in ext.items()}
        payload = encode_command(Command(code, ext=fields, body=body))[4:]
        if self.is_fast and self.world.parts.requests.fast_path(self.peer, payload):  # type: ignore[arg-type]
            return None
        return self.caller.ask(code, body, **fields)

    def asked(self) -> list[Command]:
        """Return the broker's questions since the last call."""
        found = [command for command in self.peer.pushed if command.code == Code.CHECK_TRANSACTION_STATE]
        self.peer.pushed.clear()
        return found

    def answer(self, question: Command, state: int) -> tuple[int, str]:
        """End a transaction that the broker asks about, as RocketMQ's client does."""
        ext = question.ext
        reply = self._ask(
            Code.END_TRANSACTION,
            producerGroup=self.group,
            tranStateTableOffset=ext["tranStateTableOffset"],
            commitLogOffset=ext["commitLogOffset"],
            commitOrRollback=state,
            fromTransactionCheck="true",
            msgId=ext["msgId"],
            transactionId=ext["transactionId"],
        )
        self.world.parts.end_turn()
        if reply is not None:
            return reply.code, reply.remark or ""
        return self.peer.frames.pop().code, ""


def run_round(world: World, after_ms: int = 30_000) -> None:
    """Let time pass and run the checks that are due then."""
    world.clock.advance(after_ms)
    for _ in range(3):
        world.parts.messages.transaction_checks.tick()
    world.parts.messages.transactions.tick()


def bodies(world: World, topic: str = "T", queue_id: int = 1) -> list[bytes]:
    return [message.body for message in world.messages(topic, queue_id)]


def ops(world: World) -> list[bytes]:
    """Return the bodies of the op records."""
    return bodies(world, OP, 0)


def halves(world: World) -> list[StoredMessage]:
    return world.messages(HALF)
