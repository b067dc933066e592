"""A service: takes orders, and sends an invoice for each. Ctrl-C ends it after the handlers that run.

python asyncio_service.py
pymq send Orders '{"number": 1, "total": 9.5}'
pymq tail Invoices --from start
"""

import os
from dataclasses import dataclass

import pymq
from pymq.client import Message, Producer
from pymq.client.codecs import JsonCodec

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


@dataclass
class Order:
    number: int
    total: float


@dataclass
class Invoice:
    order: int
    due: float


app = pymq.App(group="billing", namesrv=NAMESRV)
producer = Producer("billing-invoices", namesrv=NAMESRV)
app.on_start(producer.start)
app.on_stop(producer.stop)


@app.on("Orders", codec=JsonCodec(Order), consume_from="first")
async def bill(order: Order) -> None:
    """Bill one order. An exception brings it again after 10 s, 30 s and so on.

    A body that is no order becomes a dead letter.
    """
    if order.total <= 0:
        raise ValueError(f"order {order.number} costs {order.total}")
    invoice = Invoice(order.number, round(order.total * 1.19, 2))
    await producer.send(Message("Invoices", invoice, keys=f"order-{order.number}", codec=JsonCodec(Invoice)))
    print(f"billed order {order.number}: {invoice.due}", flush=True)


if __name__ == "__main__":
    app.run()
