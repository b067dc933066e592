"""Finds the directory of the installed Spark, and gives it a form in which its Python processes start quickly.

Spark puts ``python/lib/pyspark.zip`` of its home before everything else on the path of its Python processes. Python
keeps no compiled files of a zip, so each process would compile PySpark again: five times the CPU of the installed
package's files, before the process connects, for which Spark gives it ten seconds and no setting.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from pymq.errors import UsageError
from pymq.packages import pip_install

_PACKAGE = "pyspark"


def spark_home() -> Path:
    """Return the directory of the installed package. Raises UsageError when there is none."""
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise UsageError(f"Spark is not installed: {pip_install('spark')}")
    return Path(found.origin).resolve().parent


def quick_home(home: Path, scratch: Path, master: str) -> Path:
    """Return a home for this master: in local mode one in ``scratch`` whose ``python`` has the package itself.

    Clusters get the zip, which Spark sends to their machines.
    """
    if not master.startswith("local") or master.startswith("local-cluster"):
        return home
    quick = scratch / "home"
    (quick / "python").mkdir(parents=True)
    for entry in home.iterdir():
        if entry.name != "python":
            (quick / entry.name).symlink_to(entry)
    (quick / "python" / _PACKAGE).symlink_to(home)
    return quick
