"""SendFrames: frames of sends from templates, byte for byte those of Outgoing.command and encode_command."""

from __future__ import annotations

import struct

import msgspec

from pymq.client.outgoing import Outgoing, wait_property
from pymq.model.message import MessageQueue
from pymq.wire.command import encode_json_header

_KEPT_MAX = 4096  # templates
_HEAD = struct.Struct(">iI")
# Stand where a template gets its values.
_BORN = 7_777_777_777_777
_OPAQUE = 1_888_888_888
_ID = "\x00id\x00"
_PROPERTIES = "\x00properties\x00"

_encode_text = msgspec.json.Encoder().encode


class SendFrames:
    """The templates of one producer: a header for each queue and each beginning of properties."""

    def __init__(self, group: str, language: str, version: int) -> None:
        self._group = group
        self._language = language
        self._version = version
        self._templates: dict[tuple[MessageQueue, bytes, bool], bytes] = {}
        self._wide: dict[tuple[MessageQueue, int, int, bool], bytes] = {}  # templates of any properties

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

    def frame_of(self, outgoing: Outgoing, queue: MessageQueue, born_ms: int, opaque: int) -> bytes:
        """Returns the frame of an attempt to send, the first one or a later one."""
        place = queue, outgoing.sys_flag, outgoing.flag, outgoing.batch
        template = self._wide.get(place) or self._make_wide(place)
        header = template % (born_ms, _encode_text(outgoing.marked_properties), opaque)
        size, body = len(header), outgoing.body
        return b"".join((_HEAD.pack(4 + size + len(body), size), header, body))

    def _make(self, queue: MessageQueue, start: bytes, wait_store: bool) -> bytes:
        properties = f"{start.decode()}{_ID}\x02{wait_property(wait_store)}"
        header = self._header(Outgoing(queue.topic, b"", properties, "", 0, 0, False), queue)
        header = _with_place(header, _encode_text(_ID)[1:-1], b"%b")
        header = _with_place(header, b'"opaque":%d' % _OPAQUE, b'"opaque":%d')
        if len(self._templates) >= _KEPT_MAX:
            self._templates.clear()
        self._templates[queue, start, wait_store] = header
        return header

    def _make_wide(self, place: tuple[MessageQueue, int, int, bool]) -> bytes:
        queue, sys_flag, flag, is_batch = place
        header = self._header(Outgoing(queue.topic, b"", _PROPERTIES, "", flag, sys_flag, is_batch), queue)
        header = _with_place(header, _encode_text(_PROPERTIES), b"%b")
        header = _with_place(header, b'"opaque":%d' % _OPAQUE, b'"opaque":%d')
        if len(self._wide) >= _KEPT_MAX:
            self._wide.clear()
        self._wide[place] = header
        return header

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> bytes:
        """Returns the header of a send with a place for its time of birth."""
        command = outgoing.command(self._group, queue, _BORN)
        command.opaque, command.language, command.version = _OPAQUE, self._language, self._version
        header = encode_json_header(command).replace(b"%", b"%%")
        return _with_place(header, b'"g":"%d"' % _BORN, b'"g":"%d"')


def _with_place(header: bytes, mark: bytes, place: bytes) -> bytes:
    assert header.count(mark) == 1, header
    return header.replace(mark, place)
