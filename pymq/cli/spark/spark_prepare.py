"""``pymq spark-prepare``: halves the time that Spark takes to start, by :mod:`pymq.spark.session.preparing`."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.declared import examples, new_app
from pymq.cli.output import print_line
from pymq.cli.spark.options import prepare_spark
from pymq.errors import UsageError
from pymq.packages import pip_install
from pymq.units import format_bytes

app = new_app()


@app.command(epilog=examples("pymq spark-prepare", "pymq spark-prepare --remove"))
def spark_prepare(
    remove: Annotated[bool, typer.Option("--remove", help="Delete the file instead.")] = False,
) -> None:
    """Halve the time that Spark takes to start: keep the classes that it loads in a file, once per machine.

    spark-export, spark-import, spark-sql and pipelines use the file. Run it again after an update of Java or Spark: one
    that does not fit is not used. Needs the spark extra.
    """
    try:
        from pymq.spark.session.class_archive import archive_path
        from pymq.spark.session.java import find_java
        from pymq.spark.session.preparing import prepare
        from pymq.spark.session.spark_home import spark_home
    except ModuleNotFoundError as error:
        raise UsageError(f"spark-prepare needs {error.name}: {pip_install('spark')}") from error
    if remove:
        path = archive_path(find_java(), spark_home())
        is_there = path.exists()
        path.unlink(missing_ok=True)
        print_line(f"deleted {path}" if is_there else f"nothing to delete: there is no {path}")
        return
    prepare_spark()
    path = prepare()
    print_line(f"Spark starts from {path} ({format_bytes(path.stat().st_size)}) from now on")
