"""scripts/audit-packages: a known vulnerability fails, a service out of reach is said and does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.packaging.advisories import main
from tests.packaging.lock import FOR, HEAD
from tests.ports import free_port_block

HASH = "0" * 64
ADVISORIES: dict[str, Any] = {
    "PYSEC-1": {
        "summary": "Reads\nbeyond",
        "affected": [{"ranges": [{"type": "ECOSYSTEM", "events": [{"fixed": "2.1"}]}]}],
    },
    "PYSEC-2": {"summary": "no fault after all", "withdrawn": "2026-01-01T00:00:00Z"},
}
NAMED = {("holed", "2.0"): ["PYSEC-1"], ("cleared", "1.0"): ["PYSEC-2"]}


class Service(BaseHTTPRequestHandler):
    """Answers as OSV does."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        keys = [(query["package"]["name"], query["version"]) for query in asked]
        results = [{"vulns": [{"id": name} for name in NAMED[key]]} if key in NAMED else {} for key in keys]
        self.answer(200, {"results": results} if ("odd", "1.0") not in keys else ["something else"])

    def do_GET(self) -> None:
        self.answer(200, ADVISORIES[self.path.removeprefix("/v1/vulns/")])

    def answer(self, status: int, told: Any) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(tmp_path: Path, service: str, pins: list[str], *arguments: str) -> int:
    lock = tmp_path / "lock.txt"
    lock.write_text(HEAD + "".join(f"{FOR}base\n{pin} \\\n    --hash=sha256:{HASH}\n" for pin in pins))
    return main(["--service", service, "--lock", str(lock), *arguments])


def test_a_version_with_an_advisory_fails(service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, service, ["sound==1.0", "holed==2.0"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "holed 2.0: PYSEC-1: Reads beyond (fixed in: 2.1)",
        "2 locked versions, 1 advisories that are not accepted",
    ]


def test_sound_accepted_and_withdrawn_pass(service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, service, ["sound==1.0", "cleared==1.0", "holed==2.1"]) == 0
    assert run(tmp_path, service, ["holed==2.0"], "--accept", "PYSEC-1") == 0
    assert "SKIPPED" not in capsys.readouterr().out


def test_out_of_reach_is_said_and_passes(service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, f"http://127.0.0.1:{free_port_block()}", ["holed==2.0"]) == 0
    assert capsys.readouterr().out.startswith("*** SKIPPED: 1 locked versions were NOT compared")
    assert run(tmp_path, service + "/elsewhere?", ["odd==1.0"]) == 0  # another's answer, such as a portal's
    assert capsys.readouterr().out.startswith("*** SKIPPED: 1 locked versions were NOT compared")


def test_an_address_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, "file:///etc/passwd", ["sound==1.0"])
