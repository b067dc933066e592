"""Settings as a server answers them."""

from __future__ import annotations

import asyncio

import pytest

from pymq.client.admin import Admin
from pymq.errors import PymqError
from pymq.wire.codes import RequestCode
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer


def values(body: bytes) -> dict[str, str]:
    async def ask() -> dict[str, str]:
        server = await FakeServer().start()
        server.on(RequestCode.GET_BROKER_CONFIG, lambda _: Reply(body=body))
        try:
            async with Admin(server.address) as admin:
                return dict((await admin.settings.read(server.address)).values)
        finally:
            await server.stop()

    return asyncio.run(ask())


def test_lines_are_settings() -> None:
    assert values(b"brokerName=a\nbrokerId=0\n") == {"brokerName": "a", "brokerId": "0"}


@pytest.mark.parametrize("body", [b"", b"[1]", b"[" * 100_000, b"null"])
def test_an_answer_without_a_setting_is_no_empty_table(body: bytes) -> None:
    with pytest.raises(PymqError, match="has no line name=value"):
        values(body)
