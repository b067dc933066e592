"""Command line of the tour, which scripts/demo calls."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from pymq.demo.tour import DemoError, Tour


def main(arguments: list[str] | None = None) -> int:
    """Run the tour; return 0 when every step succeeded."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="Sends real data through a broker, a group and Spark."
    )
    parser.add_argument("--dir", type=Path, help="directory for all files (a new temporary directory)")
    parser.add_argument("--orders", type=int, default=100_000, help="number of generated messages (100,000)")
    options = parser.parse_args(arguments)
    # Ends through the finally blocks, so that no broker is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = (options.dir or Path(tempfile.mkdtemp(prefix="pymq-demo-"))).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    console = Console()
    try:
        Tour(directory, options.orders, console).walk()
    except DemoError as problem:
        console.print(f"\n[bold red]The demo failed:[/] {problem}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print(f"\nstopped; the files so far are in {directory}", highlight=False)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
