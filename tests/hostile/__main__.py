"""``scripts/hostile``: run the attacks at ten times their size in docs/testing.md, and print what each cost."""

from __future__ import annotations

import argparse
import os
import sys

import pytest


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/hostile", description=__doc__)
    parser.add_argument("--scale", type=int, default=10, help="so many times that size (default 10)")
    parser.add_argument("tests", nargs="*", default=["tests/hostile"], help="test files (default all)")
    options, others = parser.parse_known_args()
    if options.scale < 1:
        parser.error(f"--scale is {options.scale}, the least is 1: scripts/test tests/hostile runs the suite's sizes")
    os.environ["PYMQ_HOSTILE_SCALE"] = str(options.scale)
    return int(
        pytest.main(
            [*options.tests, "-p", "no:xdist", "--timeout=3600", "--durations=0", "--durations-min=10", *others]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
