"""The messages of inner batches in ``tail``, ``message get``, ``store dump`` and ``store inspect``, each alone."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from pymq.client import Message
from pymq.client.sync import Producer
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq


def test_each_message_of_a_batch_is_shown_and_found_by_itself(
    pymq: Pymq, server: StandaloneProcess, data_directory: Path
) -> None:
    pymq("topic", "create", "packed", "--queue-type", "BatchCQ", "--wq", "1", "--rq", "1")
    messages = [Message("packed", f"body {n}", tags="T", keys=[f"packed-{n}"]) for n in range(3)]
    with Producer("packers", namesrv=server.namesrv) as producer:
        ids = producer.send_batch(messages, timeout_s=30).message_id.split(",")

    def shown(record: dict[str, Any]) -> tuple[Any, ...]:
        return record["offset"], record["body"], record["keys"], record["message_id"]

    def dumped(record: dict[str, Any]) -> tuple[Any, ...]:
        return record["queueOffset"], record["bodyBase64"], record["keys"], record["msgId"]

    wanted = [(n, f"body {n}", f"packed-{n}", ids[n]) for n in range(3)]
    tailed = pymq("tail", "packed", "--from", "start", "--no-follow", "-o", "json").json()
    assert list(map(shown, tailed)) == wanted
    [found] = pymq("message", "get", ids[1], "--topic", "packed", "-o", "json").json()
    assert shown(found) == wanted[1]
    store = (str(data_directory), "--while-running")
    assert [dumped(one) for one in pymq("store", "dump", *store, "--topic", "packed").json_lines()] == [
        (n, b64encode(body.encode()).decode(), keys, message_id) for n, body, keys, message_id in wanted
    ]
    assert shown(pymq("store", "inspect", *store, "--id", ids[2], "-o", "json").json()) == wanted[2]
