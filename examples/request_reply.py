"""A question with an answer: a producer sends a request, and waits for the reply of a consumer.

python request_reply.py
"""

import asyncio
import os

from pymq.client import Message, Producer, PushConsumer
from pymq.client.admin import Admin
from pymq.model.tables import TopicConfig

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
PRICES = {"apples": "3.20", "pears": "2.80"}


async def main() -> None:
    async with Producer("shop", namesrv=NAMESRV) as replier, Producer("customer", namesrv=NAMESRV) as customer:

        async def answer(messages: list) -> None:
            for message in messages:
                await replier.reply(message, PRICES.get(message.content().decode(), "unknown").encode())

        async with Admin(namesrv=NAMESRV) as admin:  # or: pymq topic create Prices
            if "Prices" not in await admin.topics.names():
                for master in await admin.cluster.masters():
                    await admin.topics.put(master.address, TopicConfig(topic_name="Prices"))
        consumer = PushConsumer("shop", namesrv=NAMESRV, on_message=answer, consume_from="first")
        consumer.subscribe("Prices")
        async with consumer:
            for fruit in (*PRICES, "plums"):
                reply = await customer.request(Message("Prices", fruit.encode()), timeout_s=30)
                print(f"{fruit}: {reply.content().decode()}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
