"""SendFrames: frames of plain sends from templates, byte for byte those of Outgoing.command and encode_command."""

from __future__ import annotations

import struct

import msgspec

from pymq.client.outgoing import AUTO_CREATE_QUEUE_COUNT, wait_property
from pymq.model.message import MessageQueue
from pymq.model.names import AUTO_CREATE_TOPIC
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, encode_json_header
from pymq.wire.headers.send import send_v2_fields

_KEPT_MAX = 4096  # templates
_HEAD = struct.Struct(">iI")
# Stand where a template gets its values.
_BORN = 7_777_777_777_777
_OPAQUE = 1_888_888_888
_ID = "\x00id\x00"


class SendFrames:
    """The templates of one producer: a header for each queue and each beginning of properties."""

    def __init__(self, group: str, language: str, version: int) -> None:
        self._group = group
        self._language = language
        self._version = version
        self._templates: dict[tuple[MessageQueue, bytes, bool], bytes] = {}

    def frame(
        self,
        queue: MessageQueue,
        start: bytes,
        wait_store: bool,
        message_id: str,
        body: bytes,
        flag: int,
        born_ms: int,
        opaque: int,
    ) -> bytes | None:
        """Returns the frame of a message whose properties are ``start``, its id, and WAIT; None for an odd one."""
        if flag:
            return None
        template = self._templates.get((queue, start, wait_store))
        if template is None:
            template = self._make(queue, start, wait_store)
        header = template % (born_ms, message_id.encode(), opaque)
        size = len(header)
        return b"".join((_HEAD.pack(4 + size + len(body), size), header, body))

    def _make(self, queue: MessageQueue, start: bytes, wait_store: bool) -> bytes:
        fields = send_v2_fields(
            producer_group=self._group,
            topic=queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=AUTO_CREATE_QUEUE_COUNT,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=_BORN,
            flag=0,
            properties=f"{start.decode()}{_ID}\x02{wait_property(wait_store)}",
            batch=False,
            broker_name=queue.broker_name,
        )
        command = Command(
            RequestCode.SEND_MESSAGE_V2, opaque=_OPAQUE, language=self._language, version=self._version, ext=fields
        )
        header = encode_json_header(command).replace(b"%", b"%%")
        header = _with_place(header, b'"g":"%d"' % _BORN, b'"g":"%d"')
        header = _with_place(header, msgspec.json.encode(_ID)[1:-1], b"%b")
        header = _with_place(header, b'"opaque":%d' % _OPAQUE, b'"opaque":%d')
        if len(self._templates) >= _KEPT_MAX:
            self._templates.clear()
        self._templates[queue, start, wait_store] = header
        return header


def _with_place(header: bytes, mark: bytes, place: bytes) -> bytes:
    assert header.count(mark) == 1, header
    return header.replace(mark, place)
