"""``pymq mirror`` between two servers: nothing lost, order kept, resumed after kills, no loops, clear refusals."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented
from tests.cli.test_send_tail import make, wait_until

Rows = list[tuple[int, str, str]]  # queue, body, message id
BODY_MAX_BYTES = 100_000
KILLS = int(os.environ.get("PYMQ_MIRROR_KILLS", "1"))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneProcess]:
    settings = {"brokerClusterName": "West", "maxMessageSize": str(BODY_MAX_BYTES)}
    with StandaloneProcess(tmp_path_factory.mktemp("west") / "data", settings=settings) as process:
        yield process


@pytest.fixture
def there(pymq: Pymq, target: StandaloneProcess) -> Callable[[str], Rows]:
    """Return a function from a topic to its messages at the target, in the order of the queues."""

    def rows(topic: str) -> Rows:
        shown = pymq("tail", topic, "-F", "--from", "start", "-o", "jsonl", "--namesrv", target.namesrv)
        found = [(one["queue"], one["offset"], one["body"], one["message_id"]) for one in shown.json_lines()]
        return [(queue, body, message_id) for queue, _, body, message_id in sorted(found)]

    return rows


def fill(pymq: Pymq, topic: str, count: int, first: int = 0) -> None:
    rows = "".join(json.dumps({"body": f"m{at}", "keys": f"k{at}", "tags": "t"}) + "\n" for at in range(first, count))
    assert pymq("send", topic, "--jsonl", "--batch", "20", stdin=rows).code == EXIT_OK


def here(pymq: Pymq, topic: str) -> Rows:
    found = pymq("tail", topic, "-F", "--from", "start", "-o", "jsonl").json_lines()
    return [(one["queue"], one["body"], one["message_id"]) for one in found]


def check(source: Rows, copies: Rows, *, duplicates_allowed: bool = False) -> None:
    """Check that all messages came, and that each queue's came in order, counting each message's first copy."""
    assert {row[1:] for row in copies} == {row[1:] for row in source}
    assert duplicates_allowed or len(copies) == len(source)
    for queue in {row[0] for row in source}:
        wanted = [message_id for number, _, message_id in source if number == queue]
        places = {number for number, _, message_id in copies if message_id in set(wanted)}
        assert len(places) == 1
        firsts = list(dict.fromkeys(message_id for _, _, message_id in copies if message_id in set(wanted)))
        assert firsts == wanted


def test_a_copy_goes_on_where_it_stopped(
    pymq: Pymq, target: StandaloneProcess, there: Callable[[str], Rows], tmp_path: Path
) -> None:
    topic = make(pymq, "mirrored", 3)
    command = ["mirror", "mirr*", "--to", target.namesrv, "--progress", str(tmp_path / "p"), "--rename", "eu_{topic}"]
    fill(pymq, topic, 500)
    first = pymq(*command, "--once", "-o", "json")
    assert first.code == EXIT_OK, first.err
    assert_documented("mirror", first.json())
    assert (first.json()["copied"], first.json()["behind"]) == (500, 0)
    check(here(pymq, topic), there("eu_mirrored"))
    fill(pymq, topic, 600, 500)
    assert pymq(*command, "--once", "-o", "json").json()["copied"] == 100
    check(here(pymq, topic), there("eu_mirrored"))
    described = pymq("tail", "eu_mirrored", "-F", "-1", "-o", "jsonl", "--namesrv", target.namesrv).json_lines()[0]
    assert (described["tags"], described["keys"][:1]) == ("t", "k")
    assert described["properties"]["PYMQ_MIRROR_PATH"] == "DefaultCluster"


def test_what_came_from_a_cluster_is_not_copied_back(
    pymq: Pymq, target: StandaloneProcess, server: StandaloneProcess
) -> None:
    topic = make(pymq, "both_ways")
    fill(pymq, topic, 30)
    there_and_back = [
        ["mirror", topic, "--to", target.namesrv, "--group", "to_west", "--once", "-o", "json"],
        [
            "mirror",
            topic,
            "--to",
            server.namesrv,
            "--group",
            "to_east",
            "--once",
            "-o",
            "json",
            "--namesrv",
            target.namesrv,
        ],
    ]
    assert pymq(*there_and_back[0]).json()["copied"] == 30
    assert pymq("send", topic, "from west", "--namesrv", target.namesrv).code == EXIT_OK
    for copied, skipped in ((1, 30), (0, 0)):
        figures = pymq(*there_and_back[1]).json()
        assert (figures["copied"], figures["skipped"]) == (copied, skipped)
    again = pymq(*there_and_back[0]).json()
    assert (again["copied"], again["skipped"]) == (0, 1)
    lag = pymq("group", "lag", "to_west", "-o", "json").json()
    assert sum(one["lag"] for one in lag if one["topic"] == topic) == 0


def start(server: StandaloneProcess, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pymq", "mirror", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NAMESRV_ADDR": server.namesrv},
    )


def saved(progress: Path, topic: str) -> int:
    """Return how many messages the file says are copied."""
    if not progress.exists():
        return 0
    brokers = json.loads(progress.read_text())["offsets"].get(topic, {})
    return sum(offset for queues in brokers.values() for offset in queues.values())


@pytest.mark.slow
def test_kills_at_random_points_lose_nothing_and_keep_the_order(
    pymq: Pymq, server: StandaloneProcess, target: StandaloneProcess, there: Callable[[str], Rows], tmp_path: Path
) -> None:
    topic, progress, count = make(pymq, "killed", 4), tmp_path / "progress", 1200 * (KILLS + 1)
    fill(pymq, topic, count)
    arguments = [topic, "--to", target.namesrv, "--progress", str(progress)]
    luck = random.Random(7)
    for _ in range(KILLS):
        before = saved(progress, topic)
        process = start(server, *arguments, "--rate", "700")
        goal = before + luck.randrange(1, 400)
        try:
            wait_until(lambda goal=goal: saved(progress, topic) >= goal, "copying")
        finally:
            process.kill()
            process.communicate()
    before = saved(progress, topic)
    process = start(server, *arguments, "--rate", "700", "-o", "json")
    wait_until(lambda: saved(progress, topic) > before, "copying")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == EXIT_OK
    stopped_at = saved(progress, topic)
    copies = len(there(topic))
    assert json.loads(out)["copied"] > 0
    rest = pymq("mirror", *arguments, "--once", "-o", "json").json()
    assert rest["copied"] == count - stopped_at, "Ctrl-C leaves a point from which nothing is copied twice"
    assert len(there(topic)) == copies + rest["copied"]
    check(here(pymq, topic), there(topic), duplicates_allowed=True)


def test_a_message_that_the_target_refuses_stops_the_mirror_or_is_left_out(
    pymq: Pymq, target: StandaloneProcess, there: Callable[[str], Rows], tmp_path: Path
) -> None:
    topic = make(pymq, "refused_copy")
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(2 * BODY_MAX_BYTES))
    for body in ("before", f"@{tmp_path / 'large'}", "behind"):
        assert pymq("send", topic, body).code == EXIT_OK
    command = ["mirror", topic, "--to", target.namesrv, "--progress", str(tmp_path / "p"), "--once"]
    for _ in range(2):
        stopped = pymq(*command)
        assert stopped.code == EXIT_FAILED
        assert f"{topic} broker-a/0@1 can't be copied" in stopped.err and "--on-error skip" in stopped.err
        assert [body for _, body, _ in there(topic)] == ["before"], "nothing overtakes it, and nothing comes twice"
    skipped = pymq(*command, "--on-error", "skip", "-o", "json")
    assert skipped.code == EXIT_OK and f"{topic} broker-a/0@1 is left out" in skipped.err
    assert (skipped.json()["copied"], skipped.json()["skipped"]) == (1, 1)
    assert [body for _, body, _ in there(topic)] == ["before", "behind"]


def test_options_that_are_refused(
    pymq: Pymq, server: StandaloneProcess, target: StandaloneProcess, tmp_path: Path
) -> None:
    topic, progress = make(pymq, "not_mirrored"), tmp_path / "progress"
    base = ["mirror", topic, "--once", "--to", target.namesrv]
    for wrong, words in [
        ([*base], "give --group NAME or --progress FILE"),
        ([*base, "--group", "g", "--progress", "p"], "give --group NAME or --progress FILE"),
        ([*base, "--group", "g", "--rename", "all"], "has no {topic}"),
        ([*base, "--group", "g", "--start", "-5"], "--start"),
        ([*base, "--group", "g", "--on-error", "panic"], "stop or skip"),
        (["mirror", topic, "--once", "--to", server.namesrv, "--group", "g"], "--source-name and --target-name"),
    ]:
        outcome = pymq(*wrong)
        assert outcome.code == EXIT_USAGE and words in outcome.err, wrong
    missing = pymq(*base, "--group", "g", "--no-create")
    assert missing.code == EXIT_NOT_FOUND and "--no-create" in missing.err
    assert pymq("mirror", "absent", "--once", "--to", target.namesrv, "--group", "g").code == EXIT_NOT_FOUND
    pymq("send", topic, "one")
    assert pymq(*base, "--progress", str(progress)).code == EXIT_OK
    outcome = pymq(*base, "--progress", str(progress), "--target-name", "North")
    assert outcome.code == EXIT_USAGE and "from DefaultCluster to West" in outcome.err
    progress.write_text("{")
    assert "no progress of a mirror" in pymq(*base, "--progress", str(progress)).err


@pytest.mark.slow
def test_a_running_mirror_has_metrics_and_its_file_for_itself(
    pymq: Pymq, server: StandaloneProcess, target: StandaloneProcess, tmp_path: Path
) -> None:
    topic, progress = make(pymq, "mirror-measured"), tmp_path / "progress"
    fill(pymq, topic, 20)
    arguments = [topic, "--to", target.namesrv, "--progress", str(progress)]
    process = start(server, *arguments, "--metrics-port", "0")
    try:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        wait_until(lambda: saved(progress, topic) == 20, "copying")
        text = urllib.request.urlopen(address).read().decode()
        assert f'pymq_mirror_copied_messages_total{{topic="{topic}"' in text.replace("'", '"') or topic in text
        outcome = pymq("mirror", *arguments, "--once")
        assert outcome.code == EXIT_USAGE and "another mirror uses" in outcome.err
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == EXIT_OK
