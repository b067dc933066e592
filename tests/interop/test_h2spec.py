"""h2spec, the conformance tests for servers of HTTP/2, against the port for gRPC.

It sends `GET /` without a type of content, which PyMQ answers by 415 and fields alone.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.interop.support.golang import built_program
from tests.interop.support.grpc_servers import PymqPort
from tests.interop.support.tools import unavailable

SOURCES = Path(__file__).parent / "h2spec"
PACKAGE = "github.com/summerwind/h2spec/cmd/h2spec"
SECTIONS = ("generic", "http2", "hpack")
CASE_COUNT = 146
CASE_TIMEOUT_S = 2
RUN_TIMEOUT_S = 300

NO_DATA = "the answer has no DATA frame"
# Cases that h2spec does not pass, and why.
FAILED = {
    ("generic/2", "Sends a WINDOW_UPDATE frame on half-closed (remote) stream"): NO_DATA,
    ("generic/2", "Sends a PRIORITY frame on half-closed (remote) stream"): NO_DATA,
    (
        "http2/5.1.2",
        "Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded",
    ): "a stream ends with the answer, so there are never too many",
    (
        "http2/6.8",
        "Sends a GOAWAY frame with a stream identifier other than 0x0",
    ): "a client's GOAWAY is not looked at: it says that the client opens no stream, and takes nothing from the server",
}
SKIPPED = {
    ("http2/6.5.3", "Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE"): NO_DATA,
    ("http2/6.9.1", "Sends SETTINGS frame to set the initial window size to 1 and sends HEADERS frame"): NO_DATA,
    ("http2/6.9.2", "Changes SETTINGS_INITIAL_WINDOW_SIZE after sending HEADERS frame"): NO_DATA,
    ("http2/6.9.2", "Sends a SETTINGS frame for window size to be negative"): NO_DATA,
}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    if importlib.util.find_spec("grpc") is None:
        unavailable("the extra `grpc` is not installed")
    server = PymqPort(tmp_path / "server", {})
    yield server.endpoint.rpartition(":")[2]
    server.stop()


def test_the_port_for_grpc_conforms_to_http_2(port: str, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    command = [str(built_program(SOURCES, PACKAGE)), *SECTIONS, "--strict", "-p", port]
    command += ["-o", str(CASE_TIMEOUT_S), "-j", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    shown = done.stdout[done.stdout.find("Failures:") :] + done.stderr
    assert report.exists(), shown
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) == CASE_COUNT, shown
    assert _with(cases, "error", "failure") == FAILED.keys(), shown
    assert _with(cases, "skipped") == SKIPPED.keys(), shown


def _with(cases: list[ElementTree.Element], *outcomes: str) -> set[tuple[str, str]]:
    found = [case for case in cases if any(case.find(outcome) is not None for outcome in outcomes)]
    return {(case.attrib["package"], case.attrib["classname"]) for case in found}
