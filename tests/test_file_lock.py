"""Locks between processes, and the import of everything where there is no fcntl, as on Windows."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pymq import file_lock
from pymq.file_lock import try_lock_byte, try_lock_file

# Modules of POSIX that a Windows Python lacks.
POSIX_ONLY = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "uvloop")

# What modules have on POSIX only.
POSIX_ATTRIBUTES = {
    "os": (
        *("fork", "register_at_fork", "getuid", "geteuid", "uname", "statvfs", "sched_getaffinity", "killpg", "setsid"),
        *("pread", "pwrite", "preadv", "pwritev", "fdatasync", "posix_fallocate", "posix_fadvise"),
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"),
    ),
    "signal": ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGPIPE"),
    "mmap": ("MAP_SHARED", "PROT_READ", "PROT_WRITE", "MADV_DONTNEED"),
    "socket": ("AF_UNIX", "SO_REUSEPORT"),
}

IMPORT_ALL = """
import importlib, mmap, os, pkgutil, signal, socket, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {names!r}:
            raise ModuleNotFoundError(name, name=name)

for name in {names!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
import asyncio, logging.handlers, numpy, shutil, subprocess, tempfile  # Windows has other forms of them
for module, attributes in {attributes!r}.items():
    for attribute in attributes:
        if hasattr(sys.modules[module], attribute):
            delattr(sys.modules[module], attribute)
import pymq
for module in pkgutil.walk_packages(pymq.__path__, "pymq."):
    if module.name != "pymq.__main__" and not module.name.startswith("pymq.demo"):
        importlib.import_module(module.name)
print("all")
"""

OTHER_PROCESS = """
import os, sys
from pymq.file_lock import try_lock_byte, try_lock_file
kind, path = sys.argv[1:]
fd = os.open(path, os.O_RDWR)
print(try_lock_file(fd) if kind == "file" else try_lock_byte(fd, is_shared=kind == "shared"))
"""


def locked_by_another(kind: str, path: Path) -> bool:
    """Return whether another process gets the lock."""
    result = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, kind, str(path)], capture_output=True, text=True, check=True
    )
    return result.stdout.strip() == "True"


@pytest.mark.slow
def test_everything_imports_without_the_modules_of_posix() -> None:
    program = IMPORT_ALL.replace("{names!r}", repr(POSIX_ONLY)).replace("{attributes!r}", repr(POSIX_ATTRIBUTES))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.returncode) == ("all\n", 0), result.stderr


def test_one_process_has_a_byte_and_many_share_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    fd = os.open(path, os.O_RDWR)
    assert try_lock_byte(fd, is_shared=True)
    assert locked_by_another("shared", path)
    assert not locked_by_another("byte", path)
    assert try_lock_byte(fd)
    assert not locked_by_another("shared", path)
    os.close(fd)
    assert locked_by_another("byte", path)


def test_a_file_is_locked_within_a_process_too(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as second:
        assert try_lock_file(first.fileno())
        assert not try_lock_file(second.fileno())
        assert not locked_by_another("file", path)


def test_windows_locks_byte_0_and_keeps_the_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    failures = [0, errno.EACCES, errno.EDEADLK, errno.EINVAL]

    def locking(fd: int, mode: int, count: int) -> None:
        asked.append((os.lseek(fd, 0, os.SEEK_CUR), count))
        failure = failures.pop(0)
        if failure:
            raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(file_lock, "_fcntl", None)
    monkeypatch.setattr(file_lock, "_msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    with path.open("r+b") as stream:
        stream.seek(3)
        assert try_lock_byte(stream.fileno())
        assert not try_lock_file(stream.fileno())
        assert not try_lock_byte(stream.fileno(), is_shared=True)
        with pytest.raises(OSError, match="Invalid"):
            try_lock_byte(stream.fileno())
        assert asked == [(0, 1)] * 4
        assert os.lseek(stream.fileno(), 0, os.SEEK_CUR) == 3
