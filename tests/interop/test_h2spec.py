"""h2spec, the conformance tests for servers of HTTP/2, against the server for gRPC.

h2spec sends `GET /` without a type of content, and looks for data in the answers. The server here takes any type, and
has a method of that name, which answers when the request ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pymq.proxy.protocol.messages import Status
from pymq.proxy.rpc import call_fields
from pymq.proxy.rpc.call import RpcCall, RpcMethod
from pymq.proxy.rpc.server import RpcServer
from tests.interop.support.golang import built_program

SOURCES = Path(__file__).parent / "h2spec"
PACKAGE = "github.com/summerwind/h2spec/cmd/h2spec"
SECTIONS = ("generic", "http2", "hpack")
CASE_COUNT = 146
CASE_TIMEOUT_S = 2
RUN_TIMEOUT_S = 300


async def _count(call: RpcCall, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    yield Status(code=1 + len([each async for each in requests]), message="answer")


async def _judged(program: Path, report: Path) -> str:
    server = RpcServer({b"/": RpcMethod(_count, Status, takes_stream=True, gives_stream=True)})
    port = await server.start("127.0.0.1", 0)
    try:
        command = [str(program), *SECTIONS, "--strict", "-p", str(port), "-o", str(CASE_TIMEOUT_S), "-j", str(report)]
        judge = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        async with asyncio.timeout(RUN_TIMEOUT_S):
            written, _ = await judge.communicate()
    finally:
        await server.stop(0)
    return written.decode()


def test_the_server_for_grpc_conforms_to_http_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_fields, "CONTENT_TYPE", b"")
    report = tmp_path / "report.xml"
    written = asyncio.run(_judged(built_program(SOURCES, PACKAGE), report))
    shown = written[written.find("Failures:") :]
    assert report.exists(), shown
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) == CASE_COUNT, shown
    assert not [case.attrib for case in cases if len(case) > 0], shown
