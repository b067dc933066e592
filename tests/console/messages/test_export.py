"""Files of JSON lines: equal messages when they are sent again, cut at limits, with names that say so."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest

from pymq.client import Message, MessageQueue, StoredMessage
from pymq.console.messages import export
from pymq.console.messages.dead_letters import dead_letters_file
from pymq.console.messages.export import Cut
from pymq.console.messages.search import messages_file
from pymq.console.pages.page import Download, NotShown
from pymq.console.web.parameters import BadRequest
from pymq.errors import NotFoundError, RefusedError, UnreachableError
from pymq.model import sysflag
from pymq.model.compression import decompress_body
from pymq.operations.message.records import message_from_json
from pymq.operations.message.search import Limits
from tests.console.messages.world import BEGUN_MS, FakeTopic, stored, visit

BODIES = (
    *(b"\xff\x00bytes", b"text", b'{"a": 1}', b'{\n "a":  1}', b'"quoted"', b"[1]\r\n", b"null", b"\x1b[31m"),
    *("\u202eüber\U0001f600\u2028".encode(), b"", b"</script>", b"{", b"x" * 50_000),
)
LABELS: dict[str, Any] = {
    "TAGS": "paid",
    "KEYS": "a b",
    "color": "\u202e<red>",
    "a=b": "line\nend",
    "__SHARDINGKEY": "k",
}
BROKERS_OWN: dict[str, Any] = {"UNIQ_KEY": "7F01", "RETRY_TOPIC": "x", "PYMQ_RESEND": "1", "DELAY": "3"}


def file_of(there: FakeTopic, *, shows_bodies: bool = True, **fields: str) -> Download:
    return asyncio.run(messages_file(visit(there, shows_bodies=shows_bodies, **fields)))


def lines(found: Download) -> list[bytes]:
    return found.content.splitlines()


def sent(found: Download) -> list[Message]:
    """Return what ``pymq send --json-lines`` would send."""
    return [message_from_json("copies", line) for line in lines(found)]


def test_what_is_sent_again_is_equal() -> None:
    messages = [stored(at, body, **LABELS, **BROKERS_OWN) for at, body in enumerate(BODIES)]
    packed = zlib.compress(b"packed " * 100)
    messages.append(stored(len(BODIES), packed, sys_flag=sysflag.COMPRESSED, **LABELS))
    found = file_of(FakeTopic(*messages), topic="orders")
    assert found.name == "messages.jsonl"
    again = sent(found)
    assert [message.body for message in again] == [*BODIES, b"packed " * 100]
    for message in again:
        assert (message.tags, message.keys) == ("paid", "a b")
        assert message.properties == {"color": "\u202e<red>", "a=b": "line\nend", "__SHARDINGKEY": "k"}


def test_queues_come_one_after_the_other_the_oldest_message_first() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in (0, 1)]
    there = FakeTopic(*(stored(at, b"%d" % at, queue=queues[at % 2], time_ms=BEGUN_MS + at) for at in range(10)))
    assert [message.body for message in sent(file_of(there, topic="orders"))] == [
        b"%d" % at for at in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
    ]


def test_the_filters_and_the_time_of_the_search_choose() -> None:
    there = FakeTopic(*(stored(at, b"text %d" % at, TAGS="ab"[at % 2]) for at in range(8)))
    assert [one.body for one in sent(file_of(there, topic="orders", tag="a"))] == [
        b"text %d" % at for at in (0, 2, 4, 6)
    ]
    assert [one.body for one in sent(file_of(there, topic="orders", text="text 3"))] == [b"text 3"]
    part = file_of(there, topic="orders", from_=str(BEGUN_MS + 2000), to=str(BEGUN_MS + 4000))
    assert [one.body for one in sent(part)] == [b"text 2", b"text 3"]
    assert file_of(there, topic="orders", text="nothing").content == b""
    assert [one.body for one in sent(file_of(there, topic="orders", at="broker-a~0-3"))] == [
        b"text 0",
        b"text 1",
        b"text 2",
    ]


def test_a_message_with_an_id_or_a_key_is_a_file() -> None:
    there = FakeTopic(stored(0, b"first", KEYS="k", UNIQ_KEY="7F01"), stored(1, b"second", KEYS="k", UNIQ_KEY="7F02"))
    for text, bodies in (("k", [b"first", b"second"]), ("7F02", [b"second"]), ("broker-a:0:1", [b"second"])):
        assert [one.body for one in sent(file_of(there, topic="orders", q=text))] == bodies


def test_the_newest_stay_when_a_file_is_cut_and_its_name_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    there = FakeTopic(*(stored(at, b"%d" % at * 100) for at in range(9)))
    monkeypatch.setattr(export, "LIMITS", Limits(4, 10**6, 10**6))
    found = file_of(there, topic="orders")
    assert found.name == "messages-part-1000-messages.jsonl"
    assert [one.body[:1] for one in sent(found)] == [b"5", b"6", b"7", b"8"]
    monkeypatch.setattr(export, "LIMITS", Limits(100, 10**6, 10**6))
    monkeypatch.setattr(export, "BYTES_MAX", 2_000)  # each is stored with 300
    found = file_of(there, topic="orders")
    assert found.name == "messages-part-4-MiB.jsonl" and [one.body[:1] for one in sent(found)] == [b"7", b"8"]


def test_a_search_that_ends_early_is_in_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    there = FakeTopic(*(stored(at, TAGS="ab"[at == 0]) for at in range(200)))
    monkeypatch.setattr(export, "LIMITS", Limits(4, 1, 10**6))
    found = file_of(there, topic="orders", tag="b")
    assert (found.name, found.content) == ("messages-part-200000-looked-at.jsonl", b"")
    monkeypatch.setattr(export, "LIMITS", Limits(4, 10**6, 0))
    assert file_of(there, topic="orders", tag="b").name == "messages-part-out-of-time.jsonl"


def test_the_edge_of_the_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    there = FakeTopic(stored(0, b"a"), stored(1, b"b"))
    whole = file_of(there, topic="orders")
    monkeypatch.setattr(export, "LINE_BYTES", 0)
    monkeypatch.setattr(export, "BYTES_MAX", len(whole.content))
    assert file_of(there, topic="orders") == whole
    monkeypatch.setattr(export, "BYTES_MAX", len(whole.content) - 1)
    assert len(sent(file_of(there, topic="orders"))) == 1


@pytest.mark.parametrize(
    ("body", "cut"), [(b"no zlib", Cut.damaged), (zlib.compress(b"x" * (export.BYTES_MAX + 1)), Cut.bytes)]
)
def test_a_bad_body_hides_no_other(body: bytes, cut: Cut) -> None:
    bad = stored(1, body, sys_flag=sysflag.COMPRESSED)
    found = file_of(FakeTopic(stored(0, b"a"), bad, stored(2, b"c")), topic="orders")
    assert found.name == f"messages-part-{cut}.jsonl"
    assert [one.body for one in sent(found)] == [b"a", b"c"]


def test_a_file_is_of_now() -> None:
    async def work() -> None:
        there = FakeTopic(stored(0, b"a"))
        visited = visit(there, topic="orders")
        await messages_file(visited)
        there.add(stored(1, b"b"))
        assert [one.body for one in sent(await messages_file(visited))] == [b"a", b"b"]

    asyncio.run(work())


@pytest.mark.parametrize("size_bytes", [export.BYTES_MAX - 1000, export.BYTES_MAX // 2, 2 * export.BYTES_MAX])
def test_a_large_message_takes_no_room_of_others(size_bytes: int) -> None:
    large = bytes(range(256)) * (size_bytes // 256)
    there = FakeTopic(stored(0, b"a"), *(stored(at, large) for at in (1, 2)), stored(3, b"c"))
    found = file_of(there, topic="orders")
    assert found.name == "messages-part-4-MiB.jsonl" and len(found.content) <= export.BYTES_MAX
    assert {b"a", b"c"} <= {one.body for one in sent(found)}


def test_bodies_that_inflate_cost_no_more_than_four_files(monkeypatch: pytest.MonkeyPatch) -> None:
    inflated = 0

    def counted(*arguments: Any) -> bytes:
        nonlocal inflated
        inflated += arguments[2]
        return decompress_body(*arguments)

    monkeypatch.setattr(export, "decompress_body", counted)
    bomb = zlib.compress(b"x" * (export.BYTES_MAX * 2))
    there = FakeTopic(*(stored(at, bomb, sys_flag=sysflag.COMPRESSED) for at in range(20)))
    assert file_of(there, topic="orders").content == b""
    assert inflated <= export.INFLATED_BYTES_MAX


class Failing(FakeTopic):
    """A topic one of whose brokers fails from some pull on."""

    def __init__(self, *messages: StoredMessage, good_pulls: int) -> None:
        super().__init__(*messages)
        self._good_pulls = good_pulls

    async def pull_as(self, queue: MessageQueue, *arguments: Any, **more: Any) -> Any:
        if len(self.pulls) >= self._good_pulls:
            self.failing["broker-b"] = UnreachableError("broker-b is away")
        return await super().pull_as(queue, *arguments, **more)


@pytest.mark.parametrize("good_pulls", [0, 2])
def test_a_broker_that_fails_is_in_the_name_and_hides_no_other(good_pulls: int) -> None:
    there = Failing(
        stored(0, b"a"), stored(0, b"b", queue=MessageQueue("orders", "broker-b", 0)), good_pulls=good_pulls
    )
    found = file_of(there, topic="orders")
    assert found.name == "messages-part-without-some-brokers.jsonl"
    assert [one.body for one in sent(found)] == [b"a"]


def test_a_broker_that_was_not_asked_is_in_the_name() -> None:
    visited = visit(FakeTopic(stored(0)), topic="orders")
    visited.cluster._admin.unreached["broker-b"] = "it is away"
    assert asyncio.run(messages_file(visited)).name == "messages-part-without-some-brokers.jsonl"


def test_messages_that_are_deleted_meanwhile_are_in_the_name() -> None:
    class Expiring(FakeTopic):
        async def pull_as(self, queue: MessageQueue, *arguments: Any, **more: Any) -> Any:
            found = await super().pull_as(queue, *arguments, **more)
            self.queues[queue] = [one for one in self.queues[queue] if one.queue_offset > 1]
            return found

    found = file_of(Expiring(*(stored(at, b"%d" % at) for at in range(4))), topic="orders")
    assert found.name == "messages-part-without-deleted-messages.jsonl"
    assert [one.body for one in sent(found)] == [b"2", b"3"]


def test_without_bodies_there_is_no_file() -> None:
    for fields in ({"topic": "orders"}, {"topic": "orders", "q": "k"}):
        with pytest.raises(NotShown, match="--no-bodies"):
            file_of(FakeTopic(stored(0, KEYS="k")), shows_bodies=False, **fields)
    with pytest.raises(NotShown, match="--no-bodies"):
        asyncio.run(dead_letters_file(visit(FakeTopic(stored(0)), {"group": "billing"}, shows_bodies=False)))


def test_a_wrong_search_is_no_file() -> None:
    there = FakeTopic(stored(0))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "topic"),
        ({"topic": "orders", "sql": "("}, "sql"),
        ({"topic": "orders", "at": "x"}, "at"),
    ]
    for fields, name in wrong:
        with pytest.raises(BadRequest, match=f"^{name}: "):
            file_of(there, **fields)
    with pytest.raises(NotFoundError):
        file_of(there, topic="none")


def test_dead_letters_are_a_file() -> None:
    queue = MessageQueue("%DLQ%billing", "broker-a", 0)
    there = FakeTopic(
        *(stored(at, b"letter %d" % at, queue=queue, DLQ_ORIGIN_TOPIC="ab"[at % 2], color="red") for at in range(4))
    )
    found = asyncio.run(dead_letters_file(visit(there, {"group": "billing"}, origin="b")))
    assert found.name == "dead-letters.jsonl"
    assert [(one.body, one.properties) for one in sent(found)] == [
        (b"letter 1", {"color": "red"}),
        (b"letter 3", {"color": "red"}),
    ]


def test_a_refusal_is_no_empty_file() -> None:
    class Refusing(FakeTopic):
        async def stats(self, topic: str) -> Any:
            raise RefusedError(16, "no permission")

    with pytest.raises(RefusedError):
        file_of(Refusing(stored(0)), topic="orders")
