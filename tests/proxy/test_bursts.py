"""Many calls at the same time: each is served, however late the event loop takes it."""

from __future__ import annotations

import asyncio

import pytest

from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.proxy.protocol.names import Code
from pymq.proxy.server import ProxyServer
from pymq.testing.broker import TestBroker
from tests.proxy.harness import CALL_TIMEOUT_S, RawClient, with_client

CALLS = 4_000  # the gRPC library by itself takes no more than 3,000 that wait


@pytest.mark.slow
def test_calls_that_come_at_the_same_time_are_all_served() -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        heartbeat = client.channel.unary_unary(f"/{SERVICE}/Heartbeat")
        request = m.HeartbeatRequest().SerializeToString()
        answers = await asyncio.gather(
            *[heartbeat(request, metadata=client.metadata, timeout=3 * CALL_TIMEOUT_S) for _ in range(CALLS)]
        )
        codes = {m.HeartbeatResponse.FromString(each).status.code for each in answers}
        assert codes == {Code.UNRECOGNIZED_CLIENT_TYPE}

    with TestBroker() as broker:
        with_client(broker, work)
