"""``pymq mirror`` and JSON lines between PyMQ and a real Apache RocketMQ 5.3.3, there and back."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from pymq.testing.standalone import StandaloneProcess
from tests.interop.support.apache import ApacheServer
from tests.interop.test_apache_cli import Pymq


def test_topics_are_mirrored_to_apache_and_back(apache: ApacheServer, tmp_path: Path) -> None:
    west = Pymq(apache.namesrv)
    name = f"mirror-{uuid.uuid4().hex[:8]}"
    with StandaloneProcess(settings={"brokerClusterName": "Ours"}) as ours:
        east = Pymq(ours.namesrv)
        east.ok("topic", "create", name, "--wq", "3")
        rows = [{"body": f"m{at}", "tags": "t", "keys": f"k{at}", "properties": {"at": str(at)}} for at in range(200)]
        east.ok("send", name, "--jsonl", stdin="".join(json.dumps(row) + "\n" for row in rows))
        there = ["mirror", name, "--to", apache.namesrv, "--group", f"{name}-there", "--once"]
        back = ["mirror", name, "--to", ours.namesrv, "--progress", str(tmp_path / "progress"), "--once"]
        assert east.json(*there)["copied"] == 200
        west.ok("send", name, "from Apache", "--tag", "ours")
        first, second = west.json(*back), west.json(*back)
        assert (first["copied"], first["skipped"], second["copied"], second["skipped"]) == (1, 200, 0, 0)
        again = east.json(*there)
        assert (again["copied"], again["skipped"]) == (0, 1)
        everything = ["tail", name, "--from", "start", "-F", "-o", "jsonl"]
        shown = [json.loads(line) for line in west.ok(*everything).splitlines()]
        source = [json.loads(line) for line in east.ok(*everything).splitlines()]
    copies = {one["message_id"]: one for one in shown}
    assert len(copies) == len(shown) == 201
    for queue in range(3):
        wanted = [one["message_id"] for one in source if one["queue"] == queue and one["tags"] == "t"]
        assert len({copies[one]["queue"] for one in wanted}) == 1
        offsets = [copies[one]["offset"] for one in wanted]
        assert offsets == sorted(offsets)
    for one in source:
        copy = copies[one["message_id"]]
        assert all(copy[member] == one[member] for member in ("body", "tags", "keys"))
        assert copy["properties"].get("at") == one["properties"].get("at")
