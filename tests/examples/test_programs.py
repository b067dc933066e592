"""The programs in examples/ work as their first lines say, on a real broker."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Message, PullStatus
from pymq.client.sync import Producer, PullConsumer
from pymq.testing.standalone import StandaloneProcess
from tests.ports import free_port_block
from tests.running_program import RunningProgram

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LINES_MAX = 100
DEADLINE_S = 60.0
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as process:
        yield process


class Program(RunningProgram):
    """A running example, in an empty folder."""

    def __init__(self, server: StandaloneProcess, folder: Path, *command: str, **environment: str) -> None:
        variables = {
            **os.environ,
            "NAMESRV_ADDR": server.namesrv,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLES}",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        super().__init__([sys.executable, *command], folder, variables)

    def wait_for(self, text: str) -> None:
        self.wait_until(lambda printed: text in printed, text, DEADLINE_S)

    def end(self) -> str:
        """Wait for its end; return what it printed."""
        assert self.wait(DEADLINE_S) == 0, self.printed
        return self.printed


@pytest.fixture
def start(server: StandaloneProcess, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Return a function that starts an example: ``start("sync_worker.py")``."""
    running: list[Program] = []

    def begin(name: str, *arguments: str, **environment: str) -> Program:
        command = [str(EXAMPLES / name), *arguments] if name.endswith(".py") else [name, *arguments]
        program = Program(server, tmp_path, *command, **environment)
        running.append(program)
        return program

    yield begin
    for program in running:
        program.close()


def send(server: StandaloneProcess, topic: str, *bodies: str) -> None:
    with Producer("examples", namesrv=server.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode()))


def received(server: StandaloneProcess, topic: str) -> list[Any]:
    """Return the bodies in a topic, from JSON."""
    found = []
    with PullConsumer("examples", namesrv=server.namesrv) as pull:
        for queue in pull.queues(topic):
            offset = pull.min_offset(queue)
            while offset < pull.max_offset(queue):
                result = pull.pull(queue, offset)
                if result.status is PullStatus.FOUND:
                    found += [json.loads(message.content()) for message in result.messages()]
                offset = result.next_offset
    return found


def post(url: str, body: bytes, kind: str) -> Any:
    """Post until the server listens; return the answer's JSON."""
    deadline = time.monotonic() + DEADLINE_S
    request = urllib.request.Request(url, body, {"content-type": kind})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                assert answer.status == 202
                return json.load(answer)
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_every_program_is_short_and_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text("utf-8")
    others = ("README.md", "go.mod", "go.sum")
    listed = [path for path in EXAMPLES.rglob("*.*") if path.is_file() and "__pycache__" not in path.parts]
    programs = [path for path in listed if path.name not in others]
    assert len(programs) >= 13
    for path in programs:
        assert f"({path.relative_to(EXAMPLES).as_posix()})" in table, path
        assert path.suffix == ".ipynb" or len(path.read_text("utf-8").splitlines()) <= LINES_MAX, path


def test_asyncio_service(server: StandaloneProcess, start: Callable[..., Program]) -> None:
    send(
        server,
        "Orders",
        '{"number": 1, "total": 9.5}',
        "no order",
        '{"number": 2, "total": -1}',
        '{"number": 3, "total": 2}',
    )
    service = start("asyncio_service.py")
    service.wait_for("billed order 1: 11.3")
    service.wait_for("billed order 3: 2.38")
    service.wait_for("order 2 costs -1")
    service.process.send_signal(signal.SIGINT)
    service.end()
    assert {invoice["order"] for invoice in received(server, "Invoices")} == {1, 3}


def test_sync_worker(server: StandaloneProcess, start: Callable[..., Program]) -> None:
    send(server, "Jobs", "one", "two")
    worker = start("sync_worker.py")
    worker.wait_for("done: one")
    worker.wait_for("done: two")
    worker.process.send_signal(signal.SIGTERM)
    worker.end()


def test_fastapi_app(start: Callable[..., Program]) -> None:
    pytest.importorskip("fastapi")
    port = free_port_block(0, 0)
    web = start("-m", "uvicorn", "fastapi_app:app", "--port", str(port))
    url = f"http://127.0.0.1:{port}/orders"
    assert post(url, b'{"number": 1, "total": 9.5}', "application/json")["message_id"]
    deadline = time.monotonic() + DEADLINE_S
    while json.load(urllib.request.urlopen(f"{url}/count", timeout=DEADLINE_S)) != {"orders": 1}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    web.process.send_signal(signal.SIGTERM)
    web.process.wait(DEADLINE_S)
    assert "Application shutdown complete" in web.printed


@pytest.mark.parametrize(
    ("module", "serve", "work"),
    [
        ("flask", ["-m", "flask", "--app", "flask_app", "run", "--port"], ["flask_app.py"]),
        ("django", ["django_app.py", "runserver", "--noreload"], ["django_app.py", "work"]),
    ],
)
def test_web_process_and_worker(start: Callable[..., Program], module: str, serve: list[str], work: list[str]) -> None:
    pytest.importorskip(module)
    port = str(free_port_block(0, 0))
    start(*serve, port)
    form = urllib.parse.urlencode({"to": "ann@example.org"}).encode()
    answer = post(f"http://127.0.0.1:{port}/mails", form, "application/x-www-form-urlencoded")
    assert answer["message_id"]
    worker = start(*work)
    worker.wait_for("mail to ann@example.org")
    worker.process.send_signal(signal.SIGTERM)
    worker.end()


def test_ordered_orders(start: Callable[..., Program]) -> None:
    printed = start("ordered_orders.py").end()
    assert printed.count(": commit\n") == 5 and "order free: rollback" in printed
    assert printed.count(": packed shipped delivered\n") == 5


def test_request_reply(start: Callable[..., Program]) -> None:
    assert start("request_reply.py").end() == "apples: 3.20\npears: 2.80\nplums: unknown\n"


def test_agent_sessions(start: Callable[..., Program]) -> None:
    first, second = ("THE", "QUICK"), ("BROWN", "FOX", "JUMPS")
    shown = [f"first front: {word}" for word in first] + [f"second front: {word}" for word in second]
    assert start("agent_sessions.py").end().splitlines() == shown
    assert start("agent_sessions.py").end().splitlines() == shown, "what is there already stays"


def test_batch_job(server: StandaloneProcess, start: Callable[..., Program]) -> None:
    payments = (
        '{"customer": "ann", "amount": 3}',
        '{"customer": "bob", "amount": 5}',
        '{"customer": "ann", "amount": 4}',
    )
    send(server, "Payments", *payments)
    assert sorted(start("batch_job.py").end().splitlines()) == ["ann: 7.0", "bob: 5.0"]
    assert sorted(received(server, "Sums"), key=str) == [
        {"customer": "ann", "total": 7.0},
        {"customer": "bob", "total": 5.0},
    ]
    tests = start("-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_batch_job.py")).end()
    assert "3 passed" in tests


@pytest.mark.spark
def test_notebook(server: StandaloneProcess, start: Callable[..., Program], tmp_path: Path) -> None:
    send(server, "CityOrders", *(json.dumps({"city": city, "total": 2.5}) for city in ("Rome", "Oslo", "Rome")))
    cells = json.loads((EXAMPLES / "orders.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == 4
    (tmp_path / "notebook.py").write_text("\n".join([*code, "print('result', result)"]))
    assert "result {'Oslo': 2.5, 'Rome': 5.0}" in start("-c", "exec(open('notebook.py').read())").end()


@pytest.mark.spark
def test_pipeline(server: StandaloneProcess, start: Callable[..., Program], tmp_path: Path) -> None:
    send(server, "Payments", '{"customer": "cat", "amount": 8}')
    file = tmp_path / "pipeline.toml"
    text = (EXAMPLES / "pipeline.toml").read_text("utf-8")
    file.write_text(text.replace('name = "sums"\n', f'name = "sums"\nnamesrv = "{server.namesrv}"\n', 1))
    start("-m", "pymq", "pipeline", "check", str(file)).end()
    start("-m", "pymq", "pipeline", "run", str(file)).end()
    assert {"customer": "cat", "amount": 8.0} in received(server, "LargePayments")
