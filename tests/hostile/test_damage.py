"""Files of queues and index are damaged under a stopped or killed broker: it starts and serves every message."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Message, sync
from pymq.client.admin import Admin
from pymq.model.layout import INDEX_HEADER_SIZE_BYTES, INDEX_SLOT_SIZE_BYTES, UNIT_SIZE_BYTES
from tests.hostile.harness import Victim, eventually

COUNT = 300
BODIES = [b"%d" % number for number in range(COUNT)]
TOPIC = "Damaged"
# Small files: they are copied for each damage.
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "400",
    "maxHashSlotNum": "100",
    "maxIndexNum": "1000",
}


def delete_first(root: Path) -> None:
    queue_files(root)[0].unlink()


def delete_middle(root: Path) -> None:
    queue_files(root)[1].unlink()


def delete_last(root: Path) -> None:
    queue_files(root)[-1].unlink()


def shorten(root: Path) -> None:
    with queue_files(root)[-1].open("r+b") as file:
        file.truncate(30)


def flip_top_bits(root: Path) -> None:
    for path in queue_files(root):
        content = bytearray(path.read_bytes())
        content[100] ^= 0x80
        content[100 + 19] ^= 1
        path.write_bytes(content)


def exchange(root: Path) -> None:
    first, *_, last = queue_files(root)
    content = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(content)


def empty_all(root: Path) -> None:
    for path in (*queue_files(root), *(root / "index").iterdir()):
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(0)
            file.truncate(size)


def empty_index_slots(root: Path) -> None:
    for path in (root / "index").iterdir():
        content = bytearray(path.read_bytes())
        end = INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * int(SETTINGS["maxHashSlotNum"])
        for at in range(INDEX_HEADER_SIZE_BYTES, end, 2 * INDEX_SLOT_SIZE_BYTES):
            content[at : at + INDEX_SLOT_SIZE_BYTES] = bytes(INDEX_SLOT_SIZE_BYTES)
        path.write_bytes(content)


def queue_files(root: Path) -> list[Path]:
    """Return the files of the queue that has the most, oldest first."""
    queues = [sorted(queue.iterdir()) for queue in (root / "consumequeue" / TOPIC).iterdir()]
    return max(queues, key=len)


def unit_count(root: Path) -> int:
    """Return how many units are in the topic's files."""
    files = (root / "consumequeue").rglob("?" * 20)
    return sum(-(-len(path.read_bytes().rstrip(b"\0")) // UNIT_SIZE_BYTES) for path in files)


def bodies(namesrv: str) -> list[bytes]:
    """Return every message of the topic in the order of its number, pulled from the minimum offset of each queue."""
    found: list[bytes] = []
    with sync.PullConsumer("damage", namesrv=namesrv) as consumer:
        for queue in consumer.queues(TOPIC):
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                result = consumer.pull(queue, offset, 32)
                found += [message.body for message in result.messages()]
                offset = result.next_offset
    return sorted(found, key=int)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the directories of a broker that was stopped, and of one that was killed."""
    found = {}
    for how in ("stop", "kill"):
        directory = found[how] = tmp_path_factory.mktemp(how) / "data"
        with Victim(directory, **SETTINGS) as victim:
            with sync.Producer("damage", namesrv=victim.namesrv) as producer:
                for body in BODIES:
                    producer.send(Message(TOPIC, body, keys=[body.decode()]))
            eventually(lambda root=directory: unit_count(root) == COUNT)
            getattr(victim.process, how)()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize(
    "damage", [delete_first, delete_middle, delete_last, shorten, flip_top_bits, exchange, empty_all]
)
def test_every_message_is_served(
    sound: dict[str, Path], damage: Callable[[Path], None], how: str, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    shutil.copytree(sound[how], directory)
    damage(next(path.parent for path in directory.rglob("commitlog")))
    with Victim(directory, **SETTINGS) as victim:
        assert bodies(victim.namesrv) == BODIES


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_every_key_is_found_although_slots_of_the_index_are_empty(
    sound: dict[str, Path], how: str, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    shutil.copytree(sound[how], directory)
    empty_index_slots(next(path.parent for path in directory.rglob("commitlog")))
    with Victim(directory, **SETTINGS) as victim:
        assert asyncio.run(bodies_by_key(victim.namesrv)) == BODIES


async def bodies_by_key(namesrv: str) -> list[bytes]:
    """Look every message up by its key, and return their bodies."""
    async with Admin(namesrv=namesrv) as admin:
        return [message.body for body in BODIES for message in await admin.messages.by_key(TOPIC, body.decode())]
