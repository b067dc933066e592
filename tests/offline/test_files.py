"""Read-only access: no broker may run or start meanwhile, and not even the lock file changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pymq.errors import NotFoundError, StoreError
from pymq.offline.files import check_is_store, held
from pymq.store.disk.fs import RealFiles
from tests.offline.support import small_store, snapshot

_HOLDER = """
import sys
from pymq.store.disk.fs import RealFiles
lock = RealFiles().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(path: Path) -> Iterator[None]:
    """Start another process that holds the lock as a broker does."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.communicate(timeout=10)


def try_to_lock(path: Path) -> bool:
    program = "import sys; from pymq.store.disk.fs import RealFiles; RealFiles().lock(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=False)
    return done.returncode == 0


def test_a_running_broker_is_refused_or_reported(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    with holder(root / "lock"):
        with pytest.raises(StoreError, match="a broker holds"), held(str(root)):
            raise AssertionError("not reached")
        with held(str(root), while_running=True) as running:
            assert running
    with held(str(root)) as running:
        assert not running


def test_a_broker_of_this_process_keeps_its_lock(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    lock = RealFiles().lock(str(root / "lock"))
    with pytest.raises(StoreError, match="a broker holds"), held(str(root)):
        raise AssertionError("not reached")
    with held(str(root), while_running=True) as running:
        assert running
    assert not try_to_lock(root / "lock")
    lock.release()


def test_no_broker_starts_while_the_lock_is_held(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    before = snapshot(root)
    with held(str(root)):
        assert not try_to_lock(root / "lock")
    assert snapshot(root) == before
    assert try_to_lock(root / "lock")


def test_a_missing_lock_file_is_not_created(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    (root / "lock").unlink()
    with held(str(root)) as running:
        assert not running
    assert not (root / "lock").exists()


def test_a_directory_without_a_store_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is not a directory"):
        check_is_store(str(tmp_path / "none"), str(tmp_path / "none" / "commitlog"))
    with pytest.raises(NotFoundError, match="--commitlog"):
        check_is_store(str(tmp_path), str(tmp_path / "commitlog"))
