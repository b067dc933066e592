"""Makes a store directory of a stopped broker with one topic, for what reads directories."""

from __future__ import annotations

from pathlib import Path

from bench.frames import words
from pymq.clock import SystemClock
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore

TOPIC = "files"
QUEUES = 4
BATCH_COUNT = 32
TAGS = ("red", "green", "blue", "black")
_HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
_TICK_EVERY = 64  # commits between two ticks; a broker ticks at intervals


def fill_store(directory: Path, messages: int, body_bytes: int) -> int:
    """Appends about so many messages with bodies of words and numbers; returns their number."""
    store = MessageStore(root=str(directory), files=RealFiles(), clock=SystemClock())
    store.open()
    text = words().tobytes()
    batches = -(-messages // BATCH_COUNT)
    for number in range(batches):
        drafts: list[Draft] = []
        for place in range(number * BATCH_COUNT, (number + 1) * BATCH_COUNT):
            tag = TAGS[place % len(TAGS)]
            own = b"UNIQ_KEY\x01FD000000000000000000024A%08X\x02WAIT\x01true\x02TAGS\x01%s\x02" % (place, tag.encode())
            at = place * 7919 % (len(text) - body_bytes)
            drafts.append(Draft(text[at : at + body_bytes], own, 1_767_225_600_000, _HOST, tags_code(tag)))
        store.stage_many(TOPIC, number % QUEUES, drafts)
        store.commit()
        if number % _TICK_EVERY == 0:
            store.tick()
    store.insert_waiting_keys()
    store.tick()
    store.close()
    return batches * BATCH_COUNT
