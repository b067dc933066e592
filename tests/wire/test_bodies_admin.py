"""Admin headers and bodies against captured traffic of Java clients and brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pymq.errors import Refusal
from pymq.model.fastjson import loads
from pymq.model.message import MessageQueue
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire import bodies_admin as bodies
from pymq.wire.bodies_route import KvTable
from pymq.wire.command import Command, decode_command
from pymq.wire.header import Header, decode_header, encode_header
from pymq.wire.headers import admin as headers

FRAMES = Path(__file__).parent.parent / "golden" / "frames.jsonl"

HEADERS: dict[int, type[Header]] = {
    17: headers.CreateTopicHeader,
    202: headers.TopicHeader,
    203: headers.ConsumerConnectionsHeader,
    204: headers.ProducerConnectionsHeader,
    207: headers.DeleteGroupHeader,
    208: headers.ConsumeStatsHeader,
    215: headers.TopicHeader,
    222: headers.ResetOffsetHeader,
    300: headers.TopicHeader,
    307: headers.ConsumerRunningInfoHeader,
    315: headers.StatsDataHeader,
    321: headers.QueryConsumeQueueHeader,
    351: headers.GetTopicConfigHeader,
}
ANSWERS: dict[int, type[msgspec.Struct]] = {
    28: KvTable,
    202: bodies.TopicStats,
    203: bodies.ConsumerConnections,
    204: bodies.ProducerConnections,
    208: bodies.ConsumeStats,
    222: bodies.QueueOffsets,
    300: bodies.GroupNames,
    307: bodies.ConsumerRunningInfo,
    315: bodies.StatsData,
    321: bodies.ConsumeQueueAnswer,
    328: bodies.AllProducers,
    351: TopicConfig,
    907: bodies.HaStatus,
}
SIGNATURE = {"AccessKey", "Signature"}


def frames() -> list[tuple[dict[str, Any], Command]]:
    with FRAMES.open() as lines:
        rows = [json.loads(line) for line in lines]
    return [(row, decode_command(bytes.fromhex(row["hex"])[4:])) for row in rows]


def test_captured_requests_fit_their_headers() -> None:
    seen = set()
    for row, command in frames():
        cls = HEADERS.get(row["request_code"])
        if cls is None or row["type"] != "request":
            continue
        again = encode_header(decode_header(cls, command.ext))
        # Empty text and absence mean the same; the signature belongs to the transport.
        sent = {name: value for name, value in command.ext.items() if value and name not in SIGNATURE}
        assert {name: again.get(name) for name in sent} == sent
        seen.add(row["request_code"])
    assert seen == HEADERS.keys()


def test_captured_answers_survive_a_round_trip() -> None:
    seen = set()
    for row, command in frames():
        cls = ANSWERS.get(row["request_code"])
        if cls is None or row["type"] != "response" or command.code or not command.body:
            continue
        again = bodies.encode_admin_body(bodies.decode_admin_body(cls, command.body))
        assert loads(again) == loads(command.body)
        seen.add(row["request_code"])
    assert seen == ANSWERS.keys()


def test_captured_group_configurations() -> None:
    sent = {command.body for row, command in frames() if row["request_code"] == 200 and command.body}
    assert sent
    for body in sent:
        config = bodies.decode_admin_body(SubscriptionGroupConfig, body)
        assert config.retry_queue_nums >= 1
        assert loads(bodies.encode_admin_body(config)) == loads(body)


QUEUE = MessageQueue("T", "b", 1)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}',
        b'{"offsetTable":{ {"topic":"T" , "queueId":1,"brokerName":"b"} : 7}}',
        b'{"offsetTable":{"{\\"topic\\":\\"T\\",\\"brokerName\\":\\"b\\",\\"queueId\\":1}":7}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:"7"},"unknown":null}',
    ],
    ids=["fastjson", "other order", "strict", "text number"],
)
def test_queue_keys_in_each_form(raw: bytes) -> None:
    assert bodies.decode_admin_body(bodies.QueueOffsets, raw).offset_table == {QUEUE: 7}


def test_queue_keys_are_written_as_objects() -> None:
    raw = bodies.encode_admin_body(bodies.QueueOffsets(offset_table={QUEUE: 7}))
    assert raw == b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}'


def test_bare_numbers_as_keys() -> None:
    body = bodies.decode_admin_body(bodies.CorrectionOffsets, b'{"correctionOffsets":{0:5,1:6}}')
    assert body.correction_offsets == {0: 5, 1: 6}


def test_nulls_are_left_out() -> None:
    assert b"null" not in bodies.encode_admin_body(bodies.ConsumeDirectlyResult(consume_result="CR_SUCCESS"))


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"offsetTable":7}', b'{"offsetTable":{"x":1}}'])
def test_unusable_bodies_are_refused(raw: bytes) -> None:
    with pytest.raises(Refusal, match="not usable"):
        bodies.decode_admin_body(bodies.QueueOffsets, raw)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(Refusal, match="readQueueNums"):
        decode_header(headers.CreateTopicHeader, {"topic": "T", "writeQueueNums": "4", "perm": "6"})


def slowly(cls: type[msgspec.Struct], body: bytes) -> Any:
    """Decode without the quick way: another member makes the text of a queue a part of it."""
    return bodies.decode_admin_body(cls, b'{"no member":{"{":0},' + body.lstrip()[1:])


@pytest.mark.parametrize(
    ("cls", "body"),
    [
        (
            bodies.TopicConfigTable,
            b'{"topicConfigTable":{"t":{"topicName":"t","perm":"6","order":"true","more":[{}]}}}',
        ),
        (bodies.TopicConfigTable, b'{"topicConfigTable":{"t":{"topicName":"t","readQueueNums":8.0}}}'),
        (bodies.TopicConfigTable, b'{"topicConfigTable":{"t":{topicName:"t","attributes":{1:"a"}}}}'),
        (bodies.GroupNames, b'{"groupList":["a","a\\ud800"]}'),
        (bodies.GroupNames, b'{"groupList":["\\u007b"]}'),
        (bodies.ConsumeStats, b'{"offsetTable":{},"consumeTps":"1.5"}'),
    ],
)
def test_the_quick_way_gives_what_the_other_one_gives(cls: type[msgspec.Struct], body: bytes) -> None:
    found: list[Any] = []
    for decode in (bodies.decode_admin_body, slowly):
        try:
            found.append(decode(cls, body))
        except Refusal as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_bodies_without_queues_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "loads", None)
    table = bodies.decode_admin_body(bodies.TopicConfigTable, b'{"topicConfigTable":{"t":{"topicName":"t"}}}')
    assert table.topic_config_table == {"t": TopicConfig(topic_name="t")}
