"""File descriptors: the limit is raised, and connections leave a part of it to files."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket

import pytest

from pymq.clock import SystemClock
from pymq.net import descriptors
from pymq.net.descriptors import (
    LOW_COUNT,
    RESERVED_COUNT_MAX,
    descriptor_limit,
    raise_descriptor_limit,
    reserved_count,
    takes_reserved,
)
from pymq.net.limits import ServerLimits, within_descriptors
from pymq.net.server import Server
from pymq.wire.dispatch import Dispatcher


@pytest.mark.parametrize(("limit", "reserved"), [(256, 64), (1024, 256), (16_384, 4096), (1 << 20, RESERVED_COUNT_MAX)])
def test_a_quarter_is_reserved_up_to_a_number(limit: int, reserved: int) -> None:
    assert reserved_count(limit) == reserved


def test_the_limits_of_a_server_fit_the_descriptors() -> None:
    small = within_descriptors(ServerLimits(), 1024)
    assert (small.connection_count_max, small.connection_count_per_host_max, small.backlog) == (768, 384, 128)
    assert within_descriptors(ServerLimits(), 1 << 20) == ServerLimits()


def test_the_limit_is_raised_as_far_as_the_user_may(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 9000))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: set_to.append(limits))
    raise_descriptor_limit()
    assert set_to == [(9000, 9000)]


def test_a_limit_that_stays_low_is_reported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (LOW_COUNT, LOW_COUNT))
    raise_descriptor_limit()
    assert not caplog.records
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, resource.RLIM_INFINITY))
    raise_descriptor_limit()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "1024 files" in record.getMessage()
    assert "768 connections" in record.getMessage()


def test_a_system_without_limits_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "resource", None)
    raise_descriptor_limit()
    assert descriptor_limit() == descriptors.UNLIMITED_COUNT


def test_a_connection_that_takes_a_reserved_descriptor_is_closed_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> Server:
        server = Server(Dispatcher([], "test server"), clock=SystemClock())
        port = await server.start("127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", port)) as first:
            await asyncio.sleep(0)
            first.setblocking(False)
            while not server.connections:  # noqa: ASYNC110 - the server sets no event
                await asyncio.sleep(0.001)
            monkeypatch.setattr(descriptors, "descriptor_limit", lambda: 4)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read(1) == b""
            writer.close()
            assert len(server.connections) == 1
        await server.stop()
        return server

    server = asyncio.run(asyncio.wait_for(scenario(), 10))
    assert server.closed_for == {"descriptors": 1} and server.accepted_count == 2


def test_a_transport_without_a_socket_takes_none() -> None:
    assert not takes_reserved(asyncio.Transport())
