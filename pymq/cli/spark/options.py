"""What the commands that start Spark share: options, and silence where Spark and Py4J say what an error says anyway."""

from __future__ import annotations

import logging
import warnings
from typing import Annotated

import typer

from pymq.cli.output import print_note

MasterOption = Annotated[str, typer.Option("--master", metavar="URL", help="Spark master.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
]
DriverMemoryOption = Annotated[str, typer.Option("--driver-memory", metavar="SIZE", help="Heap of Spark's driver.")]


def prepare_spark() -> None:
    """Say when Spark starts, and print no lines of its libraries beside. Call it before Spark starts."""
    from pymq.spark.session import gateway

    gateway.announce_starts(lambda text: print_note(f"pymq: {text}"))
    # Py4J logs connections that end, with tracebacks; the error says it in one line.
    logging.getLogger().addHandler(logging.NullHandler())
    # Spark warns about every pandas from 3 on; this package doesn't use pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
