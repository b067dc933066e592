"""Segments of a real broker's log that are gone: a start says so, and no offset is given twice."""

from __future__ import annotations

import asyncio
import contextlib
import io
import shutil
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.client import Message, MessageQueue, Producer, PullConsumer
from pymq.model.layout import UNIT
from pymq.store.disk.checkpoint import CheckpointFile
from pymq.store.disk.fs import RealFiles
from pymq.testing.standalone import StandaloneProcess
from tests.hostile.harness import eventually

SETTINGS = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
}
QUEUE = MessageQueue("T", "broker-a", 0)
COUNT = 450  # seven segments


async def send(namesrv: str, count: int) -> list[int]:
    """Send messages and return their queue offsets."""
    async with Producer("P", namesrv=namesrv) as producer:
        return [(await producer.send(Message("T", b"x" * 1000), queue=QUEUE)).queue_offset for _ in range(count)]


async def pulled(namesrv: str) -> list[int]:
    """Return the offsets of all messages, as a consumer gets them."""
    async with PullConsumer("G", namesrv=namesrv) as consumer:
        await consumer.queues("T")
        found: list[int] = []
        offset, end = await consumer.min_offset(QUEUE), await consumer.max_offset(QUEUE)
        while offset < end:
            result = await consumer.pull(QUEUE, offset)
            found += [message.queue_offset for message in result.messages()]
            assert result.next_offset > offset
            offset = result.next_offset
    return found


def pymq(*arguments: str) -> tuple[int, str]:
    """Return a command's exit code and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        return cli.run(list(arguments)), printed.getvalue()


@pytest.fixture(scope="module", params=["stopped", "killed"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool]:
    """Return a data directory with seven segments, and whether its broker was killed."""
    directory, is_killed = tmp_path_factory.mktemp("log") / "data", request.param == "killed"
    with StandaloneProcess(directory, settings=SETTINGS) as broker:
        assert asyncio.run(send(broker.namesrv, COUNT)) == list(range(COUNT))
        if is_killed:
            newest = max(int(path.name) for path in (directory / "commitlog").iterdir())
            # What is not on the disk may be lost without a word: the log's newest segment, the queues' newest second.
            eventually(lambda: vouched_end(directory) > newest and unit_count(directory) == COUNT)
            broker.kill()
    return directory, is_killed


def unit_count(directory: Path) -> int:
    # The queue's first write makes its directory.
    raw = b"".join(path.read_bytes() for path in sorted((directory / "consumequeue/T/0").glob("*")))
    return sum(size > 0 for _, size, _ in UNIT.iter_unpack(raw))


def vouched_end(directory: Path) -> int:
    durable = CheckpointFile(RealFiles(), str(directory / "checkpoint")).load().durable
    return durable.log_offset if durable is not None else 0


def copied(store: tuple[Path, bool], tmp_path: Path) -> tuple[Path, list[Path]]:
    """Return a copy and its segments."""
    directory = tmp_path / "data"
    shutil.copytree(store[0], directory)
    segments = sorted((directory / "commitlog").iterdir())
    assert len(segments) >= 7
    return directory, segments


@pytest.mark.slow
@pytest.mark.parametrize("lost", [[-1], [-3, -2, -1], [3]])
def test_a_lost_segment_is_refused_until_its_loss_is_accepted(
    store: tuple[Path, bool], tmp_path: Path, lost: list[int]
) -> None:
    directory, segments = copied(store, tmp_path)
    for place in lost:
        segments[place].unlink()
    with pytest.raises(RuntimeError, match=r"is missing|are missing") as error:
        StandaloneProcess(directory, settings=SETTINGS).start()
    assert segments[lost[0]].name in str(error.value) and "pymq store accept-loss" in str(error.value)
    code, plan = pymq("store", "accept-loss", str(directory))
    assert code == 1 and "add --yes" in plan
    assert pymq("store", "accept-loss", str(directory), "--yes")[0] == 0
    with StandaloneProcess(directory, settings=SETTINGS) as broker:
        first = asyncio.run(send(broker.namesrv, 1))[0]
        assert first == COUNT
        found = asyncio.run(pulled(broker.namesrv))
        assert found == sorted(set(found)) and found[-1] == first and len(found) < COUNT
        assert "the log is damaged" not in broker.stderr  # queues say what they lack
    assert pymq("store", "verify", str(directory))[0] == 0


@pytest.mark.slow
def test_a_lost_begin_is_said_and_the_rest_is_served(store: tuple[Path, bool], tmp_path: Path) -> None:
    directory, segments = copied(store, tmp_path)
    segments[0].unlink()
    with StandaloneProcess(directory, settings=SETTINGS) as broker:
        assert f"segment {segments[0].name} is missing" in broker.stderr
        found = asyncio.run(pulled(broker.namesrv))
        assert found == list(range(found[0], COUNT)) and found[0] > 0
        assert asyncio.run(send(broker.namesrv, 1)) == [COUNT]


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 65_535])
@pytest.mark.parametrize("place", [0, -1])
def test_a_segment_of_a_wrong_size_is_refused(store: tuple[Path, bool], tmp_path: Path, place: int, size: int) -> None:
    directory, segments = copied(store, tmp_path)
    with segments[place].open("r+b") as file:
        file.truncate(size)
    with pytest.raises(RuntimeError, match="pymq store recover") as error:
        StandaloneProcess(directory, settings=SETTINGS).start()
    assert segments[place].name in str(error.value)
    if size == 0:
        assert pymq("store", "accept-loss", str(directory), "--yes")[0] == 0
        with StandaloneProcess(directory, settings=SETTINGS):
            pass
