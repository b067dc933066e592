"""Inner batches: sends of 32 messages to a topic with queue.type=BatchCQ, and pulls of their records."""

from __future__ import annotations

from bench import answers, frames
from bench.backlog import BacklogLoad, Lane
from bench.control import BenchError
from pymq.model.layout import RECORD_QUEUE_OFFSET

BATCH = 32
PULL_COUNT_MAX = 1024  # messages: 32 records
ATTRIBUTES = "+queue.type=BatchCQ"


class InnerBacklogLoad(BacklogLoad):
    """Pulls whole queues of inner batches, as :class:`BacklogLoad`. Lanes begin and end between batches."""

    def _lanes(self) -> list[Lane]:
        lanes = []
        for queue, high in enumerate(self._control.max_offsets(self._topic, self._queues)):
            middle = high // BATCH // 2 * BATCH
            lanes += [Lane(queue, 0, middle), Lane(queue, middle, high)]
        return [lane for lane in lanes if lane.next_offset < lane.end_offset]

    def _pull(self, number: int, lane: Lane) -> bytes:
        limit = min(PULL_COUNT_MAX, lane.end_offset - lane.next_offset)
        return frames.pull_frame(number, self._topic, self._group, lane.queue, lane.next_offset, limit)

    def _advance(self, frame: bytes, lane: Lane, check_all: bool) -> None:
        code, next_offset, body_at = answers.pull_answer(frame)
        if code != 0:
            header, _ = answers.split_answer(frame)
            raise BenchError(f"a pull was answered with code {code}: {header.get('remark')}")
        if RECORD_QUEUE_OFFSET.unpack_from(frame, body_at)[1] != lane.next_offset:
            raise BenchError(f"the answer to a pull of {lane.next_offset} begins elsewhere")
        if check_all:
            wanted = list(range(lane.next_offset, next_offset, BATCH))
            if answers.stored_offsets(frame[body_at:]) != wanted:
                raise BenchError(f"a pull of {lane.next_offset} does not hold the batches up to {next_offset}")
        lane.next_offset = next_offset
