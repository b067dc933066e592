"""SendFrames: frames of sends from templates, byte for byte those of Outgoing.command and encode_command."""

from __future__ import annotations

from pymq.client.outgoing import Outgoing, wait_property
from pymq.model.message import MessageQueue
from pymq.wire.frame_templates import encode_text, frame, header_template

_KEPT_MAX = 4096  # templates
# Stand where a template gets its values.
_BORN = 7_777_777_777_777
_ID = "\x00id\x00"
_PROPERTIES = "\x00properties\x00"


class SendFrames:
    """The templates of one producer: a header for each queue and each beginning of properties."""

    def __init__(self, group: str, language: str, version: int) -> None:
        self._group = group
        self._language = language
        self._version = version
        self._templates: dict[tuple[MessageQueue, bytes, bool], bytes] = {}
        self._wide: dict[tuple[MessageQueue, int, int, int, bool], bytes] = {}  # templates of any properties

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
        """Return the frame of a message whose properties are ``start``, its id, and WAIT; None for an odd one."""
        if flag:
            return None
        template = self._templates.get((queue, start, wait_store))
        if template is None:
            template = self._make(queue, start, wait_store)
        return frame(template % (born_ms, message_id.encode(), opaque), body)

    def frame_of(self, outgoing: Outgoing, queue: MessageQueue, born_ms: int, opaque: int) -> bytes:
        """Return the frame of an attempt to send, the first one or a later one."""
        place = queue, outgoing.code, outgoing.sys_flag, outgoing.flag, outgoing.batch
        template = self._wide.get(place) or self._make_wide(place)
        return frame(template % (born_ms, encode_text(outgoing.marked_properties), opaque), outgoing.body)

    def _make(self, queue: MessageQueue, start: bytes, wait_store: bool) -> bytes:
        properties = f"{start.decode()}{_ID}\x02{wait_property(wait_store)}"
        template = self._template(
            Outgoing(queue.topic, b"", properties, "", 0, 0, False), queue, encode_text(_ID)[1:-1]
        )
        if len(self._templates) >= _KEPT_MAX:
            self._templates.clear()
        self._templates[queue, start, wait_store] = template
        return template

    def _make_wide(self, place: tuple[MessageQueue, int, int, int, bool]) -> bytes:
        queue, code, sys_flag, flag, is_batch = place
        outgoing = Outgoing(queue.topic, b"", _PROPERTIES, "", flag, sys_flag, is_batch)
        outgoing.code = code
        template = self._template(outgoing, queue, encode_text(_PROPERTIES))
        if len(self._wide) >= _KEPT_MAX:
            self._wide.clear()
        self._wide[place] = template
        return template

    def _template(self, outgoing: Outgoing, queue: MessageQueue, mark: bytes) -> bytes:
        """Return the header with places for its time of birth, what ``mark`` stands for, and the opaque."""
        command = outgoing.command(self._group, queue, _BORN)
        places = {b'"g":"%d"' % _BORN: b'"g":"%d"', mark: b"%b"}
        return header_template(command, self._language, self._version, places)
