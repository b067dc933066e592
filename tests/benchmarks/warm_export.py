"""Exports a topic several times in one Spark session and prints the rows per second of each, to measure a warm Spark.

:mod:`tests.benchmarks.export` runs it as ``python -m tests.benchmarks.warm_export NAMESRV TOPIC DIRECTORY ROUNDS``.
"""

import json
import sys
from pathlib import Path

from pymq.spark import export, gateway
from pymq.spark.options import ExportOptions


def main(namesrv: str, topic: str, directory: Path, rounds: int) -> None:
    """Writes ``rounds`` exports below ``directory`` and prints a JSON list of rows per second."""
    rates = []
    options = ExportOptions(namesrv=namesrv, topics=(topic,))
    with gateway.running(options.master, {"spark.driver.memory": options.driver_memory}):
        for number in range(rounds):
            options.output = directory / f"warm-{topic}-{number}"
            summary = export.run(options)
            rates.append(summary.rows / summary.elapsed_s)
    print(json.dumps(rates))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
