"""Ships this package to the executors of a real cluster, so that it need not be installed there.

Executors need the driver's version of Python with numpy, pyarrow and msgspec. The package is shipped as a zip file,
because its classes and structs can't be pickled by value.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pymq
from pymq.spark.session import gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The packages that a task imports, directly or not; servers and commands are not shipped. Each module that lies beside
# them is: they are small, and any of these packages may come to need one.
PACKAGES = ("client", "filter", "model", "net", "offline", "security", "spark", "store", "wire")

_shipped: set[str] = set()


def prepare_executors(spark: SparkSession) -> None:
    """Ship the package, and return once the cluster has given an executor; at once in local mode.

    Raises SparkStartError.
    """
    ship_package(spark)
    gateway.wait_for_executors(spark)


def ship_package(spark: SparkSession) -> None:
    """Add the package to the session's files, unless the executors run in the driver."""
    context = spark.sparkContext
    if context.master.startswith("local") or context.applicationId in _shipped:
        return
    # Executors fetch the file when they start, so it must exist as long as this program.
    folder = Path(tempfile.mkdtemp(prefix="pymq-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.addPyFile(str(zip_package(folder / "pymq-package.zip")))
    _shipped.add(context.applicationId)


def zip_package(target: Path) -> Path:
    """Write a zip of :data:`PACKAGES` and of the modules beside them to ``target``."""
    root = Path(pymq.__file__).resolve().parent
    files = [*root.glob("*.py"), *(file for package in PACKAGES for file in (root / package).rglob("*.py"))]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(files):
            archive.write(file, Path("pymq") / file.relative_to(root))
    return target
