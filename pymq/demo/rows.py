"""The data of the tour: every row of the files in the vega_datasets package, then generated orders."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pymq.model.message import Message

ROWS_TOPIC = "demo_rows"
ORDERS_TOPIC = "demo_orders"
STATES = ("placed", "paid", "packed", "sent")


def data_files() -> list[Path]:
    """Return the CSV and JSON files of the package without importing it (and pandas).

    Raises:
        FileNotFoundError: vega_datasets is not installed.
    """
    spec = find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("vega_datasets is not installed: run scripts/install demo")
    directory = Path(spec.origin).parent / "_data"
    return sorted(path for path in directory.iterdir() if path.suffix in (".csv", ".json"))


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of one file, each as a JSON object."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            yield from csv.DictReader(file)
            return
        loaded = json.load(file)
    for row in loaded:
        yield row if isinstance(row, dict) else {"value": row}


def row_messages(path: Path) -> Iterator[Message]:
    """Yield one message per row: the row as JSON, the data set's name as tag, data set and row number as key."""
    name = path.stem
    for number, row in enumerate(rows_of(path)):
        yield Message(
            ROWS_TOPIC,
            json.dumps(row, ensure_ascii=False).encode(),
            tags=name,
            keys=f"{name}:{number}",
            properties={"dataset": name, "format": path.suffix[1:], "row": str(number)},
        )


def order_messages(count: int) -> Iterator[Message]:
    """Yield ``count`` generated orders, for volume."""
    for number in range(count):
        state = STATES[number % len(STATES)]
        order = {"order": number, "customer": number * 7919 % 1000, "cents": number * 104_729 % 50_000, "state": state}
        yield Message(ORDERS_TOPIC, json.dumps(order).encode(), tags=state, keys=f"order:{number}")
