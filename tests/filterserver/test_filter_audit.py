"""The audit log of a filter server: each refusal is a line of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from pymq.client import Credentials
from pymq.clock import SystemClock
from pymq.filterserver.metrics import FilterServerMetrics
from pymq.filterserver.server import FilterServer, FilterServerSettings
from pymq.net.client import RemotingClient
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request

ACL = """
accounts:
- {accessKey: the-reader, secretKey: the-reader-secret, topicPerms: [T=SUB], groupPerms: [G=SUB]}
- {accessKey: the-stranger, secretKey: the-stranger-secret}
"""
DEADLINE_S = 30


def test_refusals_of_a_filter_server_are_in_its_audit_log(tmp_path: Path) -> None:
    acl = tmp_path / "plain_acl.yml"
    acl.write_text(ACL)
    acl.chmod(0o600)
    settings = FilterServerSettings(
        "127.0.0.1:1", acl_enable=True, plain_acl_file=str(acl), audit_log_dir=str(tmp_path / "audit")
    )
    fields = {"consumerGroup": "G", "topic": "T", "className": "x", "classCRC": "0"}

    async def scenario() -> None:
        server = FilterServer(settings, clock=SystemClock())
        senders = [Credentials(name, f"{name}-secret") for name in ("the-reader", "the-stranger")]
        clients = [RemotingClient(clock=SystemClock(), sign=one.sign) for one in senders]
        clients.append(RemotingClient(clock=SystemClock()))
        try:
            await server.start()
            for client, is_refused in zip(clients, (False, True, True), strict=True):
                sent = request(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, fields)
                answer = await client.invoke(server.address, sent, DEADLINE_S)
                assert (answer.code == ResponseCode.NO_PERMISSION) == is_refused, answer.remark
            [lines] = [found.readings for found in FilterServerMetrics(server).collectors()[1].collect()]
            assert [reading.value for reading in lines] == [2, 0, 0]
        finally:
            for client in clients:
                await client.close()
            await server.stop()

    asyncio.run(scenario())
    told = [json.loads(line) for line in (tmp_path / "audit" / "audit.log").read_text().splitlines()]
    assert [(line["server"], line["what"], line["user"], line["proven"]) for line in told] == [
        ("filter server", "refusal", "the-stranger", True),
        ("filter server", "refusal", "", False),
    ]
    assert told[0]["resources"] == ["Topic:T", "Group:G"]
