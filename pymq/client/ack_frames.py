"""AckFrames: frames of acknowledgements from templates, byte for byte those of encode_command."""

from __future__ import annotations

from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from pymq.wire.frame_templates import encode_text, frame, header_template
from pymq.wire.headers.pop import AckMessageHeader

_KEPT_MAX = 4096  # templates
# Stand where a template gets its values.
_QUEUE = 1_777_777_777
_OFFSET = 7_777_777_777_777_777
_RECEIPT = "\x00receipt\x00"
_PLACES = {
    b'"queueId":"%d"' % _QUEUE: b'"queueId":"%d"',
    encode_text(_RECEIPT): b"%b",
    b'"offset":"%d"' % _OFFSET: b'"offset":"%d"',
}


class AckFrames:
    """The templates of one client: a header for each group and topic."""

    def __init__(self, language: str, version: int) -> None:
        self._language = language
        self._version = version
        self._templates: dict[tuple[str, str], bytes] = {}

    def frame(self, group: str, topic: str, queue_id: int, receipt: str, offset: int, opaque: int) -> bytes:
        """Return the frame of a request ACK_MESSAGE; ``topic`` is where the message was read."""
        template = self._templates.get((group, topic)) or self._make(group, topic)
        return frame(template % (queue_id, encode_text(receipt), offset, opaque))

    def _make(self, group: str, topic: str) -> bytes:
        header = AckMessageHeader(
            consumer_group=group, topic=topic, queue_id=_QUEUE, extra_info=_RECEIPT, offset=_OFFSET
        )
        template = header_template(request(RequestCode.ACK_MESSAGE, header), self._language, self._version, _PLACES)
        if len(self._templates) >= _KEPT_MAX:
            self._templates.clear()
        self._templates[group, topic] = template
        return template
