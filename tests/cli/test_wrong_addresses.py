"""Commands with the address of another server: the error says what listens there, and what to give."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest

from pymq.errors import EXIT_UNREACHABLE, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq


@pytest.mark.parametrize("command", [("topic", "list"), ("send", "T", "hello"), ("cluster", "list"), ("doctor",)])
def test_a_broker_is_no_name_server(pymq: Pymq, server: StandaloneProcess, command: tuple[str, ...]) -> None:
    outcome = pymq(*command, "--namesrv", server.broker)
    said = f"{server.broker} is the broker broker-a, not a name server: its name servers are {server.namesrv}"
    assert said in " ".join((outcome.out + outcome.err).split())
    assert outcome.code == (EXIT_UNREACHABLE if command == ("doctor",) else EXIT_USAGE)


class Refusing(socketserver.BaseRequestHandler):
    """Answers what is no HTTP, as web servers do."""

    def handle(self) -> None:
        self.request.recv(1)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture
def web_server() -> Iterator[str]:
    with socketserver.TCPServer(("127.0.0.1", 0), Refusing) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize("command", [("topic", "list"), ("send", "T", "hello")])
def test_a_web_server_is_no_name_server(pymq: Pymq, web_server: str, command: tuple[str, ...]) -> None:
    outcome = pymq(*command, "--namesrv", web_server)
    assert "it answers in HTTP: this port is a web server's" in outcome.err
    assert outcome.err.count("HTTP") == 1, "the log says nothing that the error says"
    assert outcome.code == EXIT_UNREACHABLE
