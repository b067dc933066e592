"""conf/Containerfile without a container engine: its commands in a fresh environment, then its server and its check."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.ports import free_port_block
from tests.programs_on_path import path_with_programs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "conf" / "Containerfile").read_text("utf-8")


def steps() -> Iterator[tuple[str, str]]:
    """Yield the instructions with what follows them."""
    for line in TEXT.splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def only(word: str) -> str:
    (found,) = (rest for one, rest in steps() if one == word)
    return found


def ignored(name: str) -> bool:
    """Return True for what .dockerignore leaves out: the last rule that fits decides."""
    left_out = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        rule = re.escape(line.removeprefix("!")).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
        if line and not line.startswith("#") and re.fullmatch(rule, name):
            left_out = not line.startswith("!")
    return left_out


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what an engine would copy to /src."""
    source = tmp_path_factory.mktemp("image") / "src"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if not ignored(name) and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    return source


def test_the_context_has_the_package_and_nothing_else(context: Path) -> None:
    top = {path.name for path in context.iterdir()}
    assert {"pymq", "pyspark_pymq", "docs", "conf", "pyproject.toml", "hatch_build.py", "LICENSE", "README.md"} <= top
    assert not top & {"tests", "scripts", "bench", ".git", "plugins", "requirements"}
    assert not list((context / "docs").glob("console-pages/*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_commands_install_a_pymq_that_serves(
    context: Path, machine_environment: dict[str, str], tmp_path: Path
) -> None:
    opt = tmp_path / "opt"
    built = 0
    for word, rest in steps():
        if word != "RUN" or "useradd" in rest:
            continue  # the user is the engine's own
        command = rest.replace("/src", str(context)).replace("/opt", str(opt))
        command = re.sub(r"^python\b", shlex.quote(sys.executable), command)
        done = subprocess.run(
            ["sh", "-c", command], env=machine_environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
        built += 1
    assert built == 2
    assert not (opt / "pymq" / "bin" / "pip").exists(), "the image needs no installer"
    ports = [free_port_block(0, 0), free_port_block(2, 1)]
    arguments = [word.replace("/data", str(tmp_path / "data")) for word in json.loads(only("CMD"))]
    arguments += ["--namesrv-port", str(ports[0]), "--port", str(ports[1]), "--json"]
    environment = {**os.environ, "PATH": f"{opt}/pymq/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    environment |= {"NAMESRV_ADDR": f"127.0.0.1:{ports[0]}", "PYTHONPATH": ""}
    server = subprocess.Popen(["pymq", *arguments], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        assert ready["namesrv"].endswith(f":{ports[0]}")
        check = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
        healthy = subprocess.run(check, env=environment, capture_output=True, text=True, check=False)
        assert healthy.returncode == 0 and healthy.stdout.startswith("BROKER OK"), healthy.stdout + healthy.stderr
        sent = subprocess.run(["pymq", "send", "T", "hi"], env=environment, capture_output=True, text=True, check=False)
        assert sent.returncode == 0, sent.stderr
        server.terminate()
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()
    assert subprocess.run(check, env=environment, capture_output=True, check=False).returncode != 0, "nothing runs"


def test_it_runs_as_a_user_without_rights_on_its_own_data() -> None:
    words = [word for word, _ in steps()]
    assert only("USER") == "pymq" and words.index("USER") < words.index("ENTRYPOINT")
    assert "useradd --uid 10001" in TEXT and only("VOLUME") == "/data" and "HOME=/data" in only("ENV")


def test_compose_builds_it() -> None:
    compose = yaml.safe_load((ROOT / "conf" / "compose.yaml").read_text("utf-8"))
    assert compose["x-pymq"]["build"] == {"context": "..", "dockerfile": "conf/Containerfile"}


def test_the_workflow_for_others_starts_a_broker_with_commands_that_work(tmp_path: Path) -> None:
    jobs = yaml.safe_load((ROOT / "conf" / "ci" / "github-actions.yml").read_text("utf-8"))["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    (start,) = (run for run in runs if "pymq standalone" in run)
    (send,) = (run for run in runs if "pymq send" in run)
    environment = {**os.environ, "PATH": path_with_programs(tmp_path / "bin"), "PYTHONPATH": str(ROOT)}
    environment |= {"GITHUB_ENV": str(tmp_path / "env"), "HOME": str(tmp_path)}
    script = f"set -eu\n{start}\nserver=$!\nset -a; . {tmp_path}/env; set +a\n{send}\nkill $server; wait $server\n"
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sent orders" in done.stdout
