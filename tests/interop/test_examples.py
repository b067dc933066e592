"""The programs of examples/ in other languages: each starts a broker of its own, and gets its message."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop.support.golang import built_program
from tests.interop.support.maven import class_path
from tests.interop.support.nodejs import modules_directory
from tests.interop.support.running import JVM_FLAGS
from tests.interop.support.tools import own_places, require
from tests.programs_on_path import path_with_programs

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 150


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine with ``pymq`` on PATH."""
    path = path_with_programs(tmp_path / "bin")
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}


def printed(command: list[str], environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_java(environment: dict[str, str], tmp_path: Path) -> None:
    java, javac = require("java", "javac")
    jars = class_path("client-5.3.3")
    subprocess.run([javac, "-cp", jars, "-d", str(tmp_path), str(EXAMPLES / "java" / "Orders.java")], check=True)
    flags = [*JVM_FLAGS, *own_places(tmp_path)]
    command = [java, *flags, "-cp", f"{jars}{os.pathsep}{tmp_path}", "Orders"]
    assert 'received {"id": 1}' in printed(command, environment, tmp_path)


def test_go(environment: dict[str, str], tmp_path: Path) -> None:
    assert 'received {"id": 1}' in printed([str(built_program(EXAMPLES / "go"))], environment, tmp_path)


def test_node(environment: dict[str, str], tmp_path: Path) -> None:
    (node,) = require("node")
    environment["NODE_MODULES_DIRECTORY"] = str(modules_directory())
    assert 'received {"id": 1}' in printed([node, str(EXAMPLES / "node" / "orders.js")], environment, tmp_path)
