"""The data of the demo: every row of every file becomes one unique message."""

import csv
import json

import pytest

from pymq.demo import rows

pytest.importorskip("vega_datasets", reason="the demo extra is not installed")


def test_every_row_of_every_file_has_its_own_key() -> None:
    messages = [message for path in rows.data_files() for message in rows.row_messages(path)]
    assert len(messages) > 20_000
    assert len({message.keys for message in messages}) == len(messages)
    assert all(isinstance(json.loads(message.body), dict) for message in messages)


def test_a_csv_row_keeps_its_columns_and_a_message_its_origin() -> None:
    (path,) = [path for path in rows.data_files() if path.name == "stocks.csv"]
    with path.open(encoding="utf-8", newline="") as file:
        first = next(csv.DictReader(file))
    message = next(rows.row_messages(path))
    assert json.loads(message.body) == first
    assert (message.topic, message.tags, message.keys) == (rows.ROWS_TOPIC, "stocks", "stocks:0")
    assert message.properties == {"dataset": "stocks", "format": "csv", "row": "0"}


def test_orders_differ_and_take_turns_through_their_states() -> None:
    orders = list(rows.order_messages(8))
    assert [order.tags for order in orders] == [*rows.STATES, *rows.STATES]
    assert len({order.body for order in orders}) == len({order.keys for order in orders}) == 8
