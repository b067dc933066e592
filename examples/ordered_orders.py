"""Orders whose steps stay in order, and that exist as messages only if the database has them.

Each order is a row of SQLite and a message, in one transaction: the broker shows the message after the commit, and asks
when it does not know. The steps of an order follow with one key, so a consumer gets them in their order.

    python ordered_orders.py
"""

import asyncio
import os
import sqlite3
from collections import defaultdict

from pymq.client import Message, Producer, PushConsumer, TransactionProducer, TransactionState

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
DATABASE = os.environ.get("ORDERS_DB", "orders.sqlite")
ORDER_COUNT, STEPS = 5, ("packed", "shipped", "delivered")


class Orders:
    """The database's side of the transaction. Plain functions run in a thread."""

    def execute(self, message: Message, total: float) -> TransactionState:
        """Save the order. An exception leaves it open: the broker asks :meth:`check` later."""
        with sqlite3.connect(DATABASE) as database:
            database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY, total REAL)")
            if total <= 0:
                return TransactionState.ROLLBACK
            database.execute("INSERT INTO orders VALUES (?, ?)", (message.properties["order"], total))
        return TransactionState.COMMIT

    def check(self, message: Message) -> TransactionState:
        with sqlite3.connect(DATABASE) as database:
            row = database.execute("SELECT 1 FROM orders WHERE number = ?", (message.properties["order"],)).fetchone()
        return TransactionState.COMMIT if row else TransactionState.ROLLBACK


seen: dict[str, list[str]] = defaultdict(list)
is_done = asyncio.Event()


async def follow(messages: list) -> None:
    """Note the steps of each order, one message after the other."""
    for message in messages:
        number, step = message.content().decode().split()
        seen[number].append(step)
    if sum(map(len, seen.values())) == ORDER_COUNT * len(STEPS):
        is_done.set()


async def main() -> None:
    async with TransactionProducer("orders", listener=Orders(), namesrv=NAMESRV) as orders:
        for number, total in [(str(each), 9.5) for each in range(ORDER_COUNT)] + [("free", 0.0)]:
            message = Message("PlacedOrders", number.encode(), properties={"order": number})
            result = await orders.send_in_transaction(message, total)
            print(f"order {number}: {result.state.name.lower()}", flush=True)
    async with Producer("steps", namesrv=NAMESRV) as producer:
        for step in STEPS:
            for number in range(ORDER_COUNT):
                await producer.send(Message("OrderSteps", f"{number} {step}".encode()), ordering_key=f"order-{number}")
    consumer = PushConsumer("steps", namesrv=NAMESRV, on_message=follow, orderly=True, consume_from="first")
    consumer.subscribe("OrderSteps")
    async with consumer:
        await asyncio.wait_for(is_done.wait(), 60)
    for number, steps in sorted(seen.items()):
        print(f"order {number}: {' '.join(steps)}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
