"""Workers from a fork server, with small programs in place of brokers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from pymq.net.runtime import ENDS_WITH_INPUT, new_event_loop
from pymq.net.service_manager import VARIABLE
from pymq.workers.forked import LOST_CODE, ForkedChild, ForkServer, can_fork, worker_environ
from pymq.workers.process import WorkerProcess

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system starts each worker as a new program")

PROGRAM = """
import json, os, socket, sys
from pymq.net.fork_server import serve
def run(words):
    if words[0] == "raise":
        raise ValueError("a bug")
    if words[0] == "end":
        return int(words[1])
    print(json.dumps({"words": words, "sid": os.getsid(0), "env": os.environ.get("PYMQ_ENDS_WITH_INPUT")}), flush=True)
    for line in sys.stdin:
        print('{"bytes":2}\\n{}', end="", flush=True)
    return 0
serve(socket.socket(fileno=int(sys.argv[-1])), run)
"""


def run(work: Callable[[ForkServer], Awaitable[None]]) -> None:
    async def whole() -> None:
        server = ForkServer([sys.executable, "-c", PROGRAM], {**os.environ, VARIABLE: "/none"})
        try:
            await work(server)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(asyncio.wait_for(whole(), 60))


async def line_of(child: ForkedChild) -> dict[str, object]:
    found: dict[str, object] = json.loads(await child.stdout.readline())
    return found


def test_children_have_their_arguments_pipes_and_session() -> None:
    async def work(server: ForkServer) -> None:
        await server.prepare()
        first = server.pid
        children = await asyncio.gather(*(server.start(["serve", str(number)]) for number in range(5)))
        assert server.pid == first and len({child.pid for child in children}) == 5
        for number, child in enumerate(children):
            assert await line_of(child) == {"words": ["serve", str(number)], "sid": child.pid, "env": "1"}
        children[0].stdin.close()
        assert await children[0].wait() == 0
        children[1].terminate()
        assert await children[1].wait() == -signal.SIGTERM
        children[2].kill()
        assert await children[2].wait() == -signal.SIGKILL
        children[2].kill()  # nothing happens to whoever has its number now
        process = WorkerProcess(children[3])
        assert await process.left() == {}
        assert [child.returncode for child in children[3:]] == [None, None]
        for child in children[3:]:
            child.kill()
            await child.wait()

    run(work)


def test_codes_of_children_that_end_at_once_and_by_a_bug_arrive() -> None:
    async def work(server: ForkServer) -> None:
        for code in (0, 2, 17):
            assert await (await server.start(["end", str(code)])).wait() == code
        assert await (await server.start(["raise"])).wait() == 1

    run(work)


def test_children_go_on_when_the_server_is_killed_and_the_next_one_starts() -> None:
    async def work(server: ForkServer) -> None:
        child = await server.start(["serve"])
        await line_of(child)
        first = server.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert server._process is not None
        await server._process.wait()
        other = await server.start(["serve"])
        assert server.pid != first and child.returncode is None
        child.kill()
        assert await child.wait() == LOST_CODE
        other.kill()
        assert await other.wait() == -signal.SIGKILL

    run(work)


OWN_PROGRAM = """
import asyncio, json, os, signal, sys
from pymq.net.fork_server import fork_off, serve
from pymq.workers.forked import ForkServer
def run(words):
    print(json.dumps([words, os.environ.get("MORE"), os.environ.get("NOTIFY_SOCKET"), os.getppid()]), flush=True)
    return len(sys.stdin.read())
def program(control):
    if sys.argv[1] == "broken":
        raise ValueError("a bug")
    serve(control, run)
begun = fork_off(program)
async def main():
    environ = {key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"}
    forks = ForkServer(["/nothing/here"], environ | {"MORE": "x"}, begun)
    found = []
    if sys.argv[1] == "works":
        child = await forks.start(["a", "b"])
        found.append(json.loads(await child.stdout.readline()) == [["a", "b"], "x", None, begun.pid])
        child.stdin.close()
        found.append(await child.wait())
        os.kill(begun.pid, signal.SIGKILL)
        found.append(await forks._process.wait())
    while sys.argv[1] != "unused":
        try:
            await forks.start(["c"])
        except FileNotFoundError:  # it began the program, as there is no server
            break
        except OSError:
            await asyncio.sleep(0)
    await forks.stop()
    found.append(os.path.exists(f"/proc/{begun.pid}"))
    print(json.dumps(found))
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("works", [True, 0, -signal.SIGKILL, False]),
        ("broken", [False]),
        ("unused", [False]),
    ],
)
def test_a_server_that_this_process_forked_off_is_the_first_one(how: str, found: list[object]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OWN_PROGRAM, how],
        env={**os.environ, VARIABLE: "/none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == found
    assert ("ValueError: a bug" in ran.stderr) is (how == "broken")


def test_a_server_that_cannot_start_is_an_error_of_the_system() -> None:
    async def work(_: ForkServer) -> None:
        broken = ForkServer([sys.executable, "-c", "raise SystemExit(3)"], os.environ)
        with pytest.raises(OSError, match="the process that forks workers has ended"):
            await broken.start(["serve"])
        await broken.stop()
        with pytest.raises(FileNotFoundError):
            await ForkServer(["/nothing/here"], os.environ).start(["serve"])

    run(work)


def test_a_worker_ends_with_its_input_and_is_nothing_to_the_service_manager() -> None:
    assert worker_environ({VARIABLE: "/run/notify", "A": "b"}) == {"A": "b", ENDS_WITH_INPUT: "1"}
