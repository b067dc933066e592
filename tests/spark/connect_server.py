"""A server of Spark Connect on the wheel's JVM: ``python -m tests.spark.connect_server PORT DIRECTORY``.

It prints a line when it is ready, and ends with its standard input.
"""

from __future__ import annotations

import sys

from pymq.spark.session import gateway

PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


def main(port: str, directory: str) -> None:
    """Serve until the standard input ends."""
    conf = {
        "spark.plugins": PLUGIN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": directory,
    }
    with gateway.running("local[2]", conf):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
