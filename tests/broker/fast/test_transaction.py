"""The fast paths of half messages and ends of transactions equal the plain ones, or they decline."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.transactions import kept_halves
from pymq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pymq.model.record import StoredMessage
from pymq.model.transactions import COMMIT, ROLLBACK, UNKNOWN
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import FLAG_ONEWAY, SERIALIZE_JSON, SERIALIZE_ROCKETMQ, Command, decode_command, encode_command
from tests.broker.disk import failing
from tests.broker.transactions.driver import TransactionProducer, bodies, ops, run_round, world_with_topic
from tests.broker.world import FakePeer, World

QUEUES = 4


class Side:
    """A world whose requests take the fast path first, or never."""

    def __init__(self, *, is_fast: bool, kind: str | None = None, **settings_: Any) -> None:
        """``kind``: the topic's ``message.type``."""
        self.world = world_with_topic(**settings_)
        if kind is not None:
            self.give_type(kind)
        self.peer = FakePeer()
        self.is_fast = is_fast
        self.taken: list[bool] = []
        self._dispatcher = broker_dispatcher(self.world.parts)

    def give_type(self, kind: str) -> None:
        topics = self.world.parts.metadata.topics
        topics.put([msgspec.structs.replace(topics.require("T"), attributes={"message.type": kind})])

    def serve(self, command: Command) -> None:
        """Serve a request as a connection does."""
        payload = encode_command(command)[4:]
        fast_path = self.world.parts.requests.fast_path
        self.taken.append(self.is_fast and fast_path(self.peer, payload))  # type: ignore[arg-type]
        if not self.taken[-1]:
            command = decode_command(payload)
            reply = self._dispatcher.dispatch(self.peer, command)
            if reply is not None and not command.is_oneway:
                self.peer.write(encode_command(reply.to_command(command)))

    def left(self) -> tuple[Any, ...]:
        """Return answers, records, and what is known of transactions. Store times are equal: the clock stands."""
        parts = self.world.parts
        transactions = parts.messages.transactions
        meters = {
            name: (meter.count, meter.calls, meter.size_bytes)
            for name, meter in parts.stats.topic_put.items()
            if meter.count
        }
        return (
            [msgspec.structs.asdict(frame) for frame in self.peer.frames],
            [self.world.messages("T", queue_id) for queue_id in range(QUEUES)],
            self.world.messages(HALF_TOPIC),
            self.world.messages(OP_HALF_TOPIC),
            [msgspec.structs.asdict(half) for half in transactions.halves.all()],
            (transactions.committed_count, transactions.rolled_back_count, transactions.halves.count_by_topic),
            [transactions.halves.outcome(number) for number in range(32)],
            meters,
            [command.ext for command in self.peer.pushed],
        )


def half(
    properties: str = "UNIQ_KEY\x01K\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02",
    body: bytes = b"m",
    *,
    queue_id: int = 1,
    sys_flag: int = 4,
    user_flag: int = 0,
    flag: int = 0,
    serialize: int = SERIALIZE_JSON,
) -> Command:
    ext = {
        "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": str(queue_id), "f": str(sys_flag), "g": "1795248962945",
        "h": str(user_flag), "i": properties, "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    return Command(Code.SEND_MESSAGE_V2, opaque=5, flag=flag, ext=ext, body=body, serialize=serialize)


def end(
    message: StoredMessage,
    state: int = COMMIT,
    *,
    group: str = "PG",
    further: int = 0,
    flag: int = 0,
    serialize: int = SERIALIZE_JSON,
) -> Command:
    ext = {
        "producerGroup": group, "tranStateTableOffset": str(message.queue_offset + further),
        "commitLogOffset": str(message.physical_offset), "commitOrRollback": str(state),
        "fromTransactionCheck": "false", "msgId": "K", "transactionId": "K", "bname": "broker-a",
    }  # fmt: skip
    return Command(Code.END_TRANSACTION, opaque=-6, flag=flag, ext=ext, serialize=serialize)


_NAMES = (
    "KEYS WAIT color TAGS UNIQ_KEY PGROUP TRAN_MSG XTRAN_MSG XPGROUP INNER_NUM CHECK_IMMUNITY_TIME_IN_SECONDS "
    "REAL_TOPIC __transactionId__ DELAY TIMER_DELAY_MS"
)
names = st.sampled_from(_NAMES.split())
values = st.sampled_from(["1", "0", "true", "TRUE", "PG", "a b", "ü", ""])
ways = st.tuples(st.sampled_from([0, FLAG_ONEWAY]), st.sampled_from([SERIALIZE_JSON, SERIALIZE_ROCKETMQ]))
halves = st.builds(
    lambda start, more, body, queue_id, sys_flag, user_flag, way: half(
        start + "".join(f"{name}\x01{value}\x02" for name, value in more),
        body,
        queue_id=queue_id,
        sys_flag=sys_flag,
        user_flag=user_flag,
        flag=way[0],
        serialize=way[1],
    ),
    st.sampled_from(
        [
            "UNIQ_KEY\x01K\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02",
            "UNIQ_KEY\x01K2\x02TRAN_MSG\x01true\x02WAIT\x01true\x02PGROUP\x01PG\x02TAGS\x01A\x02",
            "UNIQ_KEY\x01K3\x02TRAN_MSG\x01true\x02",
        ]
    ),
    st.one_of(st.just([]), st.just([]), st.lists(st.tuples(names, values), max_size=2)),
    st.binary(min_size=1, max_size=20),
    st.sampled_from([0, 1, 2, 3, 3, 3, 4, -1]),
    st.sampled_from([4, 4, 4, 0, 5, 8, 16, 0x301]),
    st.sampled_from([0, 0, 9]),
    ways,
)
ends = st.tuples(
    st.integers(0, 3),
    st.sampled_from([COMMIT, COMMIT, COMMIT, ROLLBACK, ROLLBACK, UNKNOWN, 5]),
    st.sampled_from(["PG", "PG", "PG", "other"]),
    st.sampled_from([0, 0, 0, 1]),
    ways,
)
steps = st.lists(
    st.one_of(halves, halves, ends, ends, st.sampled_from(["turn", "turn", "turn", "check"])), min_size=6, max_size=14
)


def test_both_paths_leave_the_same() -> None:
    taken: list[bool] = []

    @settings(max_examples=40, deadline=None)
    @given(steps, st.sampled_from([None, None, "TRANSACTION", "TRANSACTION", "NORMAL"]))
    def check(story: list[Any], kind: str | None) -> None:
        fast, plain = Side(is_fast=True, kind=kind), Side(is_fast=False, kind=kind)
        for step in [*story, "turn"]:
            stored = plain.world.messages(HALF_TOPIC)
            for side in (fast, plain):
                if step == "turn":
                    side.world.parts.end_turn()
                elif step == "check":
                    side.world.parts.end_turn()
                    run_round(side.world)
                elif isinstance(step, Command):
                    side.serve(step)
                elif step[0] < len(stored):
                    number, state, group, further, (flag, serialize) = step
                    wanted = end(stored[number], state, group=group, further=further, flag=flag, serialize=serialize)
                    side.serve(wanted)
        taken.extend(fast.taken)
        assert fast.left() == plain.left()

    check()
    print(sum(taken), "of", len(taken), "took the fast path")
    assert sum(taken) >= 20, "too few of the requests took the fast path to say anything"


@pytest.mark.parametrize("kind", [None, "TRANSACTION"])
@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_ROCKETMQ])
@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
def test_an_ordinary_transaction_takes_the_fast_path(serialize: int, state: int, kind: str | None) -> None:
    side = Side(is_fast=True, kind=kind)
    side.serve(half(serialize=serialize))
    side.world.parts.end_turn()
    side.serve(end(side.world.messages(HALF_TOPIC)[0], state, serialize=serialize))
    assert side.taken == [True, True] and bodies(side.world) == []
    side.world.parts.end_turn()
    assert bodies(side.world) == ([b"m"] if state == COMMIT else []) and ops(side.world) == [b"0,"]
    assert [(frame.code, frame.opaque, frame.serialize) for frame in side.peer.frames] == [
        (0, 5, serialize),
        (0, -6, serialize),
    ]
    assert len(side.world.parts.messages.transactions.kept) == 0


def ended(side: Side, wanted: Command) -> bool:
    """Serve the end of a transaction; return whether the fast path took it."""
    side.serve(wanted)
    side.world.parts.end_turn()
    return side.taken[-1]


def begun(**changes: Any) -> tuple[Side, StoredMessage]:
    """Return a side with one open transaction, and its half message."""
    side = Side(is_fast=True)
    side.serve(half(**changes))
    side.world.parts.end_turn()
    side.peer.frames.clear()
    return side, side.world.messages(HALF_TOPIC)[0]


def test_a_topic_that_gets_another_type_takes_the_open_transactions_and_no_further_ones() -> None:
    left = []
    for is_fast in (True, False):
        side = Side(is_fast=is_fast, enableTopicMessageTypeCheck="true")
        side.serve(half())
        side.world.parts.end_turn()
        side.give_type("NORMAL")
        side.serve(half())
        assert not ended(side, end(side.world.messages(HALF_TOPIC)[0]))
        assert bodies(side.world) == [b"m"] and side.taken == [is_fast, False, False]
        left.append(side.left())
    assert left[0] == left[1]


def test_a_forged_end_takes_the_plain_path() -> None:
    side, stored = begun()
    assert not ended(side, end(stored, group="other"))
    assert not ended(side, end(stored, further=1))
    assert [frame.code for frame in side.peer.frames] == [1, 1] and bodies(side.world) == []
    assert ended(side, end(stored)) and bodies(side.world) == [b"m"]


def test_a_half_message_that_is_not_stored_yet_can_t_be_ended() -> None:
    side = Side(is_fast=True)
    other = Side(is_fast=True)  # where its place is found out
    for each in (side, other):
        each.serve(half())
    other.world.parts.end_turn()
    assert not ended(side, end(other.world.messages(HALF_TOPIC)[0]))
    assert bodies(side.world) == [] and sorted(frame.code for frame in side.peer.frames) == [0, 1]


def test_a_half_message_that_could_not_be_stored_is_not_kept() -> None:
    side = Side(is_fast=True)
    with failing(side.world, "pwrite", "commitlog"):
        side.serve(half(body=b"lost"))
        side.world.parts.end_turn()
    assert [frame.code for frame in side.peer.frames] == [14]
    transactions = side.world.parts.messages.transactions
    assert len(transactions.halves) == len(transactions.kept) == transactions.kept.size_bytes == 0


def test_a_checked_transaction_takes_the_plain_path() -> None:
    side, stored = begun()
    run_round(side.world)
    assert len(side.world.messages(HALF_TOPIC)) == 2
    assert not ended(side, end(stored)) and bodies(side.world) == [b"m"]
    assert not ended(side, end(stored)) and bodies(side.world) == [b"m"]
    assert ops(side.world) == [b"0,1,"]


def test_a_second_end_takes_the_plain_path() -> None:
    side, stored = begun()
    assert ended(side, end(stored))
    assert not ended(side, end(stored)) and not ended(side, end(stored, ROLLBACK))
    assert [frame.code for frame in side.peer.frames] == [0, 0, 1] and bodies(side.world) == [b"m"]


def test_kept_half_messages_are_bounded_and_others_are_read() -> None:
    side = Side(is_fast=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_halves, "KEPT_SIZE_MAX_BYTES", 5000)
        for number in range(8):
            side.serve(half(body=b"%d" % number))
    side.world.parts.end_turn()
    kept = side.world.parts.messages.transactions.kept
    assert len(kept) == 4 and kept.size_bytes <= 5000
    for number, message in enumerate(side.world.messages(HALF_TOPIC)):
        assert ended(side, end(message)) == (number >= 4)
    assert bodies(side.world) == [b"%d" % number for number in range(8)]
    assert len(kept) == kept.size_bytes == 0


def test_open_transactions_are_bounded() -> None:
    side = Side(is_fast=True)
    side.world.config.open_transaction_count_max = 2
    for _ in range(3):
        side.serve(half())
    side.world.parts.end_turn()
    assert side.taken == [True, True, False]
    assert sorted(frame.code for frame in side.peer.frames) == [0, 0, 2]


def test_a_transaction_to_a_deleted_topic_stays_open() -> None:
    side, stored = begun()
    side.world.parts.metadata.topics.delete("T")
    assert not ended(side, end(stored))
    assert side.peer.frames[-1].code == 17 and len(side.world.parts.messages.transactions.halves) == 1


def test_a_commit_that_can_t_be_stored_leaves_the_transaction_open() -> None:
    side, stored = begun()
    with failing(side.world, "pwrite", "commitlog"):
        assert ended(side, end(stored))
    assert side.peer.frames[-1].code == 14 and ops(side.world) == []
    assert not ended(side, end(stored)) and bodies(side.world) == [b"m"] and ops(side.world) == [b"0,"]


def test_a_committed_message_is_found_by_its_keys() -> None:
    side, stored = begun(properties="KEYS\x01order7 blue\x02UNIQ_KEY\x01K1\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02")
    assert ended(side, end(stored))
    for key in ("K1", "order7", "blue"):
        assert len(side.world.parts.store.find_by_key("T", key, 32)) == 1, key


def test_a_slave_ends_no_transaction() -> None:
    world = World(brokerRole="SLAVE", brokerId=1)
    producer = TransactionProducer(world, joins=False)
    payload = encode_command(Command(Code.END_TRANSACTION, ext={"producerGroup": "PG"}))[4:]
    assert not world.parts.requests.fast_path(producer.peer, payload)  # type: ignore[arg-type]
