"""Tools of the hostile-peer tests: the frames, a raw socket that sends them, and servers under attack."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import traceback
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import NamedTuple

from pymq.broker.assembly.broker import Broker
from pymq.clock import ManualClock, SystemClock
from pymq.config import NamesrvConfig, load_broker_config
from pymq.model.record import encode_batch_entry
from pymq.namesrv.server import NameServer
from pymq.net.server import Server
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, decode_command, encode_command
from pymq.wire.framing import FrameBuffer

MIB = 1024 * 1024
PROBE_OPAQUE = 0x7ABCDEF1
DEADLINE_S = 20
# Ports that take TLS count a connection once it has sent its first byte: tests/net/test_listener.py.
PLAIN_KEY, PLAIN = "tls.server.mode", "disabled"


class Hostile(NamedTuple):
    """One attack. ``reason``: the counter that must rise with the connection closed; None: an answer in ``codes``."""

    name: str
    raw: bytes
    reason: str | None
    codes: tuple[int, ...] = ()


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), len(header) | kind << 24) + header + body


def ask(code: int, ext: dict[str, str] | None = None, body: bytes = b"", opaque: int = 1, **fields: int) -> bytes:
    return encode_command(Command(code, opaque=opaque, ext=ext or {}, body=body, **fields))  # type: ignore[arg-type]


def header_with(inner: bytes) -> bytes:
    return frame(b'{"code":105,"opaque":1,' + inner + b"}")


V2 = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "m": "false"}
PULL = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "1",
    "subscription": "*",
}


def _lengthen(raw: bytes) -> bytes:
    """Return the frame with a header length that is one beyond its end."""
    return raw[:5] + (int.from_bytes(raw[5:8], "big") + 1).to_bytes(3, "big") + raw[8:]


def _malformed() -> list[Hostile]:
    """Return frames that break the framing rules."""
    lengths = [0, 1, 3, 16 * MIB + 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    found = [Hostile(f"length {size:#x}", size.to_bytes(4, "big") + b"x" * 64, "frame-length") for size in lengths]
    found += [Hostile(f"header type {kind}", frame(b"{}", kind=kind), "serialize-type") for kind in (2, 7, 0x7F)]
    found += [
        Hostile("TLS hello", bytes.fromhex("16030100") + b"x" * 64, "tls-hello"),
        Hostile("HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http"),
        Hostile("header longer than the frame", b"\0\0\0\x08\0\0\0\x05abcd", "header-length"),
        Hostile("pull whose header says it is longer", _lengthen(ask(11, PULL)), "header-length"),
        Hostile("send whose header says it is longer", _lengthen(ask(310, V2)), "header-length"),
        Hostile("header length of 16 MiB", b"\0\0\0\x08\0\xff\xff\xffabcd", "header-length"),
        Hostile("empty header", b"\0\0\0\x04\0\0\0\0", "json-header"),
        Hostile("truncated binary header", frame(bytes(20), kind=1), "binary-header"),
        Hostile("binary remark of -1 bytes", frame(bytes(13) + b"\xff" * 4 + bytes(4), kind=1), "binary-header"),
        Hostile("binary fields of 2 GiB", frame(bytes(17) + b"\x7f\xff\xff\xff", kind=1), "binary-header"),
        Hostile("binary key of -1 bytes", frame(bytes(17) + b"\0\0\0\x02\xff\xff", kind=1), "binary-header"),
        Hostile("good frame, then rubbish", ask(105, {"topic": "T"}) + b"\xff" * 8, "frame-length"),
    ]
    return found


def _oversized() -> list[Hostile]:
    """Return headers that are expensive to parse."""
    many = b",".join(b'"k%d":"v"' % i for i in range(60_000))
    deep = 100_000
    return [
        Hostile("header beyond 1 MiB", frame(b'{"x":"' + b"x" * MIB + b'"}'), "header-size"),
        Hostile("60,000 named fields", header_with(b'"extFields":{' + many + b"}"), "ext-count"),
        Hostile("deep arrays", header_with(b'"x":' + b"[" * deep + b"]" * deep), "nesting"),
        Hostile("deep objects", header_with(b'"x":' + b'{"a":' * deep + b"1" + b"}" * deep), "nesting"),
        Hostile("deep field", header_with(b'"extFields":{"a":' + b"[" * 50 + b"]" * 50 + b"}"), "nesting"),
        Hostile("unclosed deep arrays", frame(b"[" * deep), "nesting"),
        Hostile("100,000 digits", header_with(b'"extFields":{"a":' + b"9" * 100_000 + b"}"), "json-header"),
        Hostile("100,000 digits as code", frame(b'{"code":' + b"9" * 100_000 + b',"opaque":1}'), "json-header"),
        Hostile("half a surrogate pair", header_with(b'"extFields":{"topic":"\\ud800"}'), "json-header"),
        *(
            Hostile(f"no UTF-8 in code {code}, {form}", frame(header, b"x"), "json-header")
            for code in (11, 310, 320)
            for form, header in {
                "code first": b'{"code":%d,"extFields":{"a":"\xff"},"flag":0,"opaque":1}' % code,
                "code last": b'{"extFields":{"a":"\xff"},"flag":0,"opaque":1,"code":%d}' % code,
            }.items()
        ),
        Hostile("deep send", frame(b'{"code":310,"extFields":{"a":' + b"[" * 5000 + b"}", b"x"), "nesting"),
        Hostile("no UTF-8", header_with(b'"extFields":{"topic":"\xff\xfe"}'), "json-header"),
        Hostile("50,000 unknown members", header_with(b",".join(b'"u%d":{}' % i for i in range(50_000))), None, (1, 3)),
    ]


def _no_header() -> list[Hostile]:
    """Return JSON that is not a header."""
    texts = [b"null", b"[]", b'"x"', b"1", b"{}", b'{"code":1}', b'{"opaque":1}', b'{"code":"x","opaque":1}']
    texts += [b'{"code":null,"opaque":1}', b'{"code":[],"opaque":1}', b'{"code":1,"opaque":9999999999}', b"{'code':1}"]
    texts += [b'{"code":1,"opaque":1,"flag":"x"}', b'{"code":1,"opaque":1,"extFields":"x"}', b"\xef\xbb\xbf{}"]
    return [Hostile(text.decode("latin-1"), frame(text), "json-header") for text in texts]


def _common_requests() -> list[Hostile]:
    """Return well-formed frames that any server must answer with a code."""
    found = [Hostile(f"code {code}", ask(code), None, (3,)) for code in (0, -1, 99, 5000, 200099, 2**31 - 1, -(2**31))]
    found.append(Hostile("binary header, unknown code", ask(999, serialize=1), None, (3,)))
    return found


def _namesrv_requests() -> list[Hostile]:
    """Return attacks on a name server: bombs, illegal names, config injection and missing fields."""
    identity = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "C", "brokerId": "0"}
    bomb = zlib.compress(bytes(64 * MIB), 9)
    lie = zlib.compress(b"\0\0\0\x02{}\x7f\xff\xff\xff")
    return [
        Hostile("route without a topic", ask(105), None, (1,)),
        Hostile("route of a path", ask(105, {"topic": "../../etc/passwd\0\n"}), None, (17,)),
        Hostile("registration without fields", ask(103), None, (1,)),
        Hostile("registration that inflates", ask(103, {**identity, "compressed": "true"}, bomb), None, (1,)),
        Hostile("registration with wrong counts", ask(103, {**identity, "compressed": "true"}, lie), None, (29,)),
        Hostile("registration of deep JSON", ask(103, identity, b"[" * MIB), None, (1,)),
        Hostile("registration of 1 MiB fastjson", ask(103, identity, b"{" + b"0:0," * (MIB // 4)), None, (1,)),
        Hostile(
            "registration with keys of keys", ask(103, identity, b"{" * 60 + b'"a":1' + b"}:1" * 59 + b"}"), None, (1,)
        ),
        Hostile("registration under a name with a newline", ask(103, {**identity, "brokerName": "a\nb"}), None, (29,)),
        Hostile("broker id of 2^63", ask(103, {**identity, "brokerId": str(2**63)}), None, (1,)),
        Hostile(
            "a value beyond its limit", ask(100, {"namespace": "n", "key": "k", "value": "v" * 70_000}), None, (29,)
        ),
        Hostile("a path into the settings", ask(318, body=b"kvConfigPath=/etc/passwd"), None, (16,)),
        Hostile(
            "an escape into the settings", ask(318, body=b"orderMessageEnable=true\\u000alistenPort=1"), None, (16,)
        ),
        Hostile("an unreadable data version", ask(322, identity, b"[[["), None, (1,)),
        Hostile(
            "a topic with 10^9 queues",
            ask(
                217,
                {"topic": "T"},
                b'{"queueDatas":[{"brokerName":"b","readQueueNums":1000000000,"writeQueueNums":1,"perm":6}]}',
            ),
            None,
            (29,),
        ),
    ]


BAD_NAMES = {
    "path": "../../etc/passwd",
    "NUL": "a\0b",
    "newline": "a\nb",
    "300 characters": "x" * 300,
    "nothing": "",
    "blank": " ",
}


def _broker_sends() -> list[Hostile]:
    """Return sends with broken batches, illegal names and numbers out of range.

    The broker refuses them with 13 or 29, fields that are not numbers with 1, forbidden topics with 16.
    """
    batch = {**V2, "m": "true"}
    entry = encode_batch_entry(b"body", b"")
    malformed = {
        "an entry longer than the body": struct.pack(">iiiii", 500, 0, 0, 0, 4) + b"body\0\0",
        "an entry of 0 bytes": bytes(22),
        "an entry of -1 bytes": b"\xff" * 22,
        "a body of 2 GiB": struct.pack(">iiiii", 26, 0, 0, 0, 0x7FFFFFFF) + b"body\0\0",
        "a body of -1 bytes": struct.pack(">iiiii", 26, 0, 0, 0, -1) + b"body\0\0",
        "properties of -1 bytes": entry[:-2] + b"\xff\xff",
        "one good entry, then half of one": entry + entry[:-3],
        "100,000 entries": encode_batch_entry(b"", b"") * 100_000,
        "nothing": b"",
    }
    found = [Hostile(f"batch: {name}", ask(320, batch, body), None, (13,)) for name, body in malformed.items()]
    found += [
        Hostile(f"send to {name}", ask(310, {**V2, "b": text}, b"x"), None, (13, 29, 1))
        for name, text in BAD_NAMES.items()
    ]
    fields = {"e": ["100000", "2147483647", "x", "1.5", str(2**31)], "f": ["x"], "g": [str(2**63)], "d": ["-1x"]}
    for letter, texts in fields.items():
        found += [Hostile(f"send with {letter}={t}", ask(310, {**V2, letter: t}, b"x"), None, (1, 29)) for t in texts]
    return [
        *found,
        Hostile("send without fields", ask(310, {}, b"x"), None, (1,)),
        Hostile("send of 5 MiB", ask(310, V2, bytes(5 * MIB)), None, (13,)),
        Hostile("send of 40 KB of properties", ask(310, {**V2, "i": "k\x01" + "v" * 40_000}, b"x"), None, (13,)),
        Hostile("send to the delay topic", ask(310, {**V2, "b": "SCHEDULE_TOPIC_XXXX"}, b"x"), None, (16,)),
    ]


def _broker_reads() -> list[Hostile]:
    """Return pulls, look-ups and offset requests with illegal names and numbers out of range."""
    pulls = {
        "queueId": ["-1", "4096", "x"],
        "queueOffset": ["-1", "1000000", str(2**63 - 1)],
        "subVersion": ["x"],
        "maxMsgNums": ["x"],
    }
    found = [
        Hostile(f"pull with {key}={text}", ask(11, {**PULL, key: text}), None, (1, 21, 29))
        for key, texts in pulls.items()
        for text in texts
    ]
    found += [
        Hostile(f"pull of {name}", ask(11, {**PULL, "topic": text}), None, (1, 17, 29))
        for name, text in BAD_NAMES.items()
    ]
    found += [
        Hostile(f"pull by {name}", ask(11, {**PULL, "consumerGroup": text}), None, (1, 13, 26, 29))
        for name, text in BAD_NAMES.items()
    ]
    found += [
        Hostile(f"view at {offset}", ask(33, {"offset": str(offset)}), None, (1, 22, 29))
        for offset in (-1, 1, 7, 2**40, 2**63 - 1, -(2**63))
    ]
    query = {"topic": "T", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(2**63 - 1)}
    return [
        *found,
        Hostile("query for nothing there", ask(12, query), None, (22,)),
        Hostile(
            "query of 2^31 messages", ask(12, {**query, "maxNum": str(2**31 - 1), "key": "x" * 500}), None, (22, 29, 1)
        ),
        Hostile(
            "query from the end to the start",
            ask(12, {**query, "beginTimestamp": str(2**63 - 1), "endTimestamp": "-1"}),
            None,
            (22, 29, 1),
        ),
        Hostile(
            "send back from nowhere", ask(36, {"offset": "999999", "group": "g", "delayLevel": "99"}), None, (1, 26, 29)
        ),
        Hostile(
            "offset of a queue that isn't there",
            ask(14, {"consumerGroup": "g", "topic": "T", "queueId": "-7"}),
            None,
            (22, 29, 1),
        ),
    ]


def _broker_admin() -> list[Hostile]:
    """Return admin requests with config injection, floods of names and unreadable bodies."""
    topic = {
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    found = [
        Hostile(f"create {name}", ask(17, {**topic, "topic": text}), None, (1, 29)) for name, text in BAD_NAMES.items()
    ]
    found += [
        Hostile(f"create with {key}={text}", ask(17, {**topic, "topic": "N", key: text}), None, (1, 29))
        for key, text in (("readQueueNums", "-1"), ("writeQueueNums", "1000000000"), ("perm", "999"), ("perm", "x"))
    ]
    found += [
        Hostile(f"{body[:12]!r} as body of {code}", ask(code, body=body), None, (1, 29))
        for code in (34, 41, 42, 200)
        for body in (b"", b"[", b"[]", b"{}", b"\xff" * 9, b"[" * 100_000, b"{" + b"0:0," * 300_000)
    ]
    groups = b",".join(b'{"groupName":"g%d"}' % i for i in range(100_000))
    flood = b'{"clientID":"c","producerDataSet":[%s],"consumerDataSet":[]}' % groups
    found.append(Hostile("heartbeat of 100,000 groups", ask(34, body=flood), None, (1, 2, 16, 29)))
    settings = [
        "storePathRootDir=/etc",
        "listenPort=1",
        "noSuchKey=1",
        "brokerName=x\nlistenPort=1",
        "maxMessageSize=-1",
        "traceOn=\\u0074rue",
    ]
    found += [Hostile(f"setting {text!r}", ask(25, body=text.encode()), None, (16, 29)) for text in settings]
    return found


FRAMING = _malformed() + _oversized() + _no_header()
NAMESRV = FRAMING + _common_requests() + _namesrv_requests()
BROKER = FRAMING + _common_requests() + _broker_sends() + _broker_reads() + _broker_admin()


class Raw:
    """A socket that sends arbitrary bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameBuffer(64 * MIB)
        self._ready: list[bytes] = []

    @classmethod
    async def open(cls, port: int) -> Raw:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, raw: bytes) -> None:
        """Send as much as the server takes before it closes."""
        with contextlib.suppress(ConnectionError):
            self.writer.write(raw)
            await self.writer.drain()

    async def receive(self) -> Command | None:
        """Return the next answer; None when the server closed the connection."""
        async with asyncio.timeout(DEADLINE_S):
            while not self._ready:
                try:
                    data = await self.reader.read(256 * 1024)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._ready = self._frames.feed(data)
        return decode_command(self._ready.pop(0))

    async def last(self) -> Command | None:
        """Read until the server closes and return the last answer before that."""
        last = None
        while (answer := await self.receive()) is not None:
            last = answer
        return last

    async def call(self, raw: bytes) -> Command:
        await self.send(raw)
        answer = await self.receive()
        assert answer is not None, "the server closed the connection"
        return answer

    def close(self) -> None:
        self.writer.transport.abort()


@dataclass
class Target:
    """A server under attack, with a well-behaved client that must not be affected."""

    server: Server
    clock: ManualClock
    """Moves a name server's time; a broker's is the machine's."""
    port: int
    good: Raw
    probe: bytes
    faults: list[str]

    async def check_health(self) -> None:
        """Check that the good client and a new one are served and that no internal error occurred."""
        assert (await self.good.call(self.probe)).code == 0
        fresh = await Raw.open(self.port)
        assert (await fresh.call(self.probe)).code == 0
        fresh.close()
        assert not self.faults, self.faults[0]

    @property
    def bad_count(self) -> int:
        return self.server.bad_frames.total()


@contextlib.asynccontextmanager
async def attacked_name_server(**settings: str) -> AsyncIterator[Target]:
    """Start a name server; ``settings`` holds configuration values by key."""
    config = NamesrvConfig()
    for name, text in {PLAIN_KEY: PLAIN, **settings}.items():
        config.set(name, text, "flag")
    clock = ManualClock()
    name_server = NameServer(clock=clock, config=config)
    port = await name_server.start(port=0)
    async with _attacked(name_server.server, clock, port, ask(106)) as target:
        try:
            yield target
        finally:
            await name_server.stop()


@contextlib.asynccontextmanager
async def attacked_broker(**settings: str) -> AsyncIterator[tuple[Target, Broker]]:
    """Start a broker on a store in memory, with one message in the topic T."""
    given = {
        "listenPort": "0",
        "namesrvAddr": "",
        "storePathRootDir": "/store",
        "mappedFileSizeCommitLog": "8MB",
        "maxHashSlotNum": "1000",
        "maxIndexNum": "4000",
        "mappedFileSizeConsumeQueue": "20000",
        PLAIN_KEY: PLAIN,
        **settings,
    }
    broker = Broker(load_broker_config(None, given), clock=SystemClock(), files=MemoryFiles(), rng=random.Random(1))
    port = int((await broker.start()).rpartition(":")[2])
    async with _attacked(broker.server, ManualClock(), port, ask(310, V2, b"a good message")) as target:
        try:
            yield target, broker
        finally:
            await broker.stop()


async def strike(target: Target, attack: Hostile) -> None:
    """Run one attack over its own connection and check its outcome."""
    before = target.server.bad_frames.copy()
    raw = await Raw.open(target.port)
    await raw.send(attack.raw)
    if attack.reason is None:
        answer = await raw.receive()
        assert answer is not None, f"{attack.name}: the connection was closed"
        assert answer.code in attack.codes, f"{attack.name}: {answer}"
        assert answer.remark, f"{attack.name}: no remark"
        assert "failed inside" not in answer.remark, f"{attack.name}: {answer.remark}"
    else:
        await raw.last()
        assert target.server.bad_frames - before == Counter([attack.reason]), attack.name
    raw.close()


async def strike_with_mutants(target: Target, mutants: list[bytes]) -> int:
    """Send payloads one by one, each followed by a good request that must be answered; return the closures."""
    closed = 0
    probe = ask(999, opaque=PROBE_OPAQUE)
    raw = await Raw.open(target.port)
    for mutant in mutants:
        await raw.send(len(mutant).to_bytes(4, "big") + mutant + probe)
        answer = await raw.receive()
        while answer is not None and answer.opaque != PROBE_OPAQUE:
            assert "failed inside" not in (answer.remark or ""), (mutant, answer.remark)
            answer = await raw.receive()
        if answer is None:
            closed += 1
            raw.close()
            raw = await Raw.open(target.port)
    raw.close()
    return closed


@contextlib.asynccontextmanager
async def _attacked(server: Server, clock: ManualClock, port: int, probe: bytes) -> AsyncIterator[Target]:
    faults: list[str] = []

    def note_fault(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        trace = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        faults.append(f"{context.get('message')}\n{trace}")

    asyncio.get_running_loop().set_exception_handler(note_fault)
    good = await Raw.open(port)
    target = Target(server, clock, port, good, probe, faults)
    await target.check_health()
    yield target
    good.close()
    await eventually(lambda: not server.connections)
    assert faults == []


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.005)


def oneway(raw_code: int, ext: dict[str, str] | None = None) -> bytes:
    return ask(raw_code, ext, flag=FLAG_ONEWAY)


def stray_response(opaque: int) -> bytes:
    return encode_command(Command(0, opaque=opaque, flag=FLAG_RESPONSE))
