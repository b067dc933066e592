"""Messages of one key stay in one queue, in order, while a machine grows and shrinks under an order configuration."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import chain
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.client import Message, Producer, PullConsumer
from pymq.errors import EXIT_OK
from tests.cli.broker.machines import machine_arguments, running

pytestmark = pytest.mark.slow

KEYS, STEPS, TOPIC = 40, 4, "Steps"

Queue = tuple[str, int]


async def send_steps(namesrv: str, first: int) -> None:
    """Send further steps of each key, all keys at once."""
    async with Producer("p", namesrv=namesrv) as producer:
        for step in range(first, first + STEPS):
            await asyncio.gather(
                *(
                    producer.send(Message(TOPIC, b"%d" % step, keys=f"k{key}"), ordering_key=f"k{key}")
                    for key in range(KEYS)
                )
            )


async def stored(namesrv: str) -> dict[str, dict[Queue, list[int]]]:
    """Return the steps of each key by queue, in the order of the queue."""
    found: dict[str, dict[Queue, list[int]]] = defaultdict(lambda: defaultdict(list))
    async with PullConsumer("finders", namesrv=namesrv) as consumer:
        for queue in await consumer.queues(TOPIC):
            offset = 0
            while offset < await consumer.max_offset(queue):
                result = await consumer.pull(queue, offset)
                for message in result.messages():
                    found[str(message.keys)][queue.broker_name, queue.queue_id].append(int(message.body))
                offset = result.next_offset
    return found


def test_a_key_keeps_its_queue_while_the_number_of_workers_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running("namesrv", "--port", "0", "--set", "orderMessageEnable=true") as server:
        namesrv = server.ready["namesrv"]
        monkeypatch.setenv("NAMESRV_ADDR", namesrv)

        def machine(count: int) -> list[str]:
            return machine_arguments(tmp_path, namesrv, count, "--name", "o")

        with running(*machine(2)) as two:
            assert cli.run(["topic", "create", TOPIC, "--wq", "4", "--rq", "4"]) == EXIT_OK
            assert cli.run(["topic", "order", TOPIC, "--set", "o-0:4;o-1:4"]) == EXIT_OK
            asyncio.run(send_steps(namesrv, 0))
            before = asyncio.run(stored(namesrv))
            assert two.stop() == EXIT_OK
        with running(*machine(3)) as three:
            asyncio.run(send_steps(namesrv, STEPS))
            grown = asyncio.run(stored(namesrv))
            assert {broker for queues in grown.values() for broker, _ in queues} == {"o-0", "o-1"}
            assert len(grown) == KEYS and {key: list(queues) for key, queues in grown.items()} == {
                key: list(queues) for key, queues in before.items()
            }
            assert all(list(queues.values()) == [list(range(2 * STEPS))] for queues in grown.values())
            assert cli.run(["topic", "order", TOPIC, "--delete"]) == EXIT_OK
            asyncio.run(send_steps(namesrv, 2 * STEPS))
            moved = asyncio.run(stored(namesrv))
            assert {broker for queues in moved.values() for broker, _ in queues} == {"o-0", "o-1", "o-2"}
            for queues in moved.values():
                steps = sorted(queues.values())
                assert sorted(chain(*steps)) == list(range(3 * STEPS)) and all(one == sorted(one) for one in steps)
            assert three.stop() == EXIT_OK
