"""FastLites: the fast path of messages of lite topics, for FastSends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.fast.tags import take_tags
from pymq.broker.runtime import Runtime
from pymq.model.layout import SENT_PROPERTIES_MAX_BYTES
from pymq.model.lite_topics import LIGHT_PROPERTIES_TEMPLATE, light_properties_max_bytes, lite_name_problem

if TYPE_CHECKING:
    from pymq.broker.fast.header import SendExt
    from pymq.broker.fast.targets import SendTargets
    from pymq.broker.messages.writer import Writer
    from pymq.model.draft import Draft
    from pymq.store.store import LightReader, PlainStager

_LITE = b"__LITE_TOPIC\x01"
_LITE_SIZE = len(_LITE)
_TAGS = b"TAGS\x01"
_SEPARATOR = 2
# Of the properties without the names of topic and lite topic that the broker's own ones add.
_SIZE_MAX_BYTES = SENT_PROPERTIES_MAX_BYTES - light_properties_max_bytes("", "")


class FastLites:
    """Stages messages whose topic has lite topics."""

    def __init__(
        self, runtime: Runtime, *, writer: Writer, stager: PlainStager, targets: SendTargets, lights: LightReader
    ) -> None:
        self._config = runtime.config
        self._writer = writer
        self._enrichment = writer.enrichment
        self._stager = stager
        self._targets = targets
        self._lights = lights
        self._place = lights.place

    def put(self, ext: SendExt, draft: Draft, *, is_sole: bool) -> tuple[int, int] | None:
        """Stage the message; return its physical offset and its queue offset.

        FastSends makes the draft; its properties become those of the stored message. ``is_sole``: beside UNIQ_KEY,
        the lite topic is the only property with an underscore. None when the plain path must decide, and nothing is
        staged. Raises StoreError.
        """
        raw, topic = draft.keyed, ext.topic
        place = topic, ext.queue_id
        target = self._targets.get_parent(place) or self._targets.find_parent(*place)
        at = raw.find(_LITE)
        # Other names that begin like __SHARDINGKEY and __STARTDELIVERTIME make a message of another type.
        if target is None or (at and raw[at - 1] != _SEPARATOR):
            return None
        if not is_sole and (raw.find(_LITE, at + 1) >= 0 or b"__S" in raw):
            return None
        name = raw[at + _LITE_SIZE : raw.find(b"\x02", at)]
        lite = name.decode()
        properties = raw + self._enrichment
        if len(properties) + len(topic) + len(name) > _SIZE_MAX_BYTES:
            return None
        number, offset = self._place(topic, lite)
        if (number < 0 and not self._may_begin(lite)) or (_TAGS in raw and not take_tags(draft, raw)):
            return None
        queue = target.queue
        draft.properties = properties + LIGHT_PROPERTIES_TEMPLATE % (queue.topic_part[1:], name, offset)
        queue_offset = queue.next_offset
        physical_offset, size = self._stager.stage_lite(queue, draft, lite, number, offset)
        target.meter.add(1, size)
        self._writer.staged_count += 1
        return physical_offset, queue_offset

    def _may_begin(self, lite: str) -> bool:
        """Return whether a message of a new lite topic is taken."""
        return self._lights.count < self._config.lite_topic_count_max and lite_name_problem(lite) is None
