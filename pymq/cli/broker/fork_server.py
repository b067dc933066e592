"""The program that forks the workers of a machine: it has loaded a broker's modules and does nothing else."""

from __future__ import annotations

import gc
import socket
import sys

from pymq.cli import main
from pymq.net.fork_server import serve
from pymq.net.runtime import load

# What ``pymq broker`` imports until it serves.
MODULES = (
    *("pymq.broker.assembly.broker", "pymq.broker.metrics.collector", "pymq.broker.assembly.left_over"),
    *("pymq.cli.broker.command", "pymq.cli.broker.machine", "pymq.cli.common.servers", "pymq.config.load"),
    *("pymq.log_limit", "typer.main"),
)


def serve_loaded(control: socket.socket) -> None:
    """Load the modules, then fork workers for the process at the other end of the socket."""
    load(*MODULES)
    gc.collect()
    gc.freeze()
    serve(control, main.run)


if __name__ == "__main__":
    serve_loaded(socket.socket(fileno=int(sys.argv[-1])))
