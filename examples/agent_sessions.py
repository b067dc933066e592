"""Sessions of an AI agent: each has a lite topic of its own, on which the answers come in order, word by word.

python agent_sessions.py

The front that a user is connected to may change: here the connection breaks in the middle of an answer, another front
takes the session over, and goes on behind the last word that the user got.
"""

import asyncio
import os

from pymq.client import LiteConsumer, Message, Producer, PushConsumer
from pymq.client.admin import Admin
from pymq.errors import NotFoundError
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
END = "\0"


async def prepare() -> None:
    """Do what these commands do, where it is not done yet.

    pymq topic create Prompts
    pymq topic create Answers --type lite --expire 1h
    pymq group create fronts --lite Answers --lite-model exclusive
    """
    answers = {"message.type": "LITE", "lite.topic.expiration": "60"}
    fronts = {"+lite.bind.topic": "Answers", "+lite.sub.model": "Exclusive"}
    async with Admin(namesrv=NAMESRV) as admin:
        for master in await admin.cluster.masters():
            for name, attributes in (("Prompts", {}), ("Answers", answers)):
                try:
                    await admin.topics.route(name)
                except NotFoundError:
                    await admin.topics.put(master.address, TopicConfig(topic_name=name, attributes=attributes))
            group = SubscriptionGroupConfig(group_name="fronts", attributes=fronts)
            if await admin.groups.config(master.address, "fronts") is None:
                await admin.groups.put(master.address, group)


async def think(prompts: list) -> None:
    """Answer prompts of any session. Sends of one lite topic keep their order."""
    async with Producer("agent", namesrv=NAMESRV) as producer:
        for prompt in prompts:
            session, words = prompt.keys, prompt.content().decode().upper().split()
            for word in [*words, END]:
                await producer.send(Message("Answers", word, lite_topic=session))


async def front(name: str, session: str, words_max: int) -> bool:
    """Show a session's answer to its user, up to so many words; return whether it is at its end."""
    async with LiteConsumer("fronts", "Answers", namesrv=NAMESRV) as consumer:
        await consumer.subscribe(session)
        while True:
            for word in await consumer.receive(1):
                text = word.content().decode()
                if text != END:
                    print(f"{name}: {text}", flush=True)
                await consumer.ack(word)
                words_max -= 1
                if text == END or not words_max:
                    return text == END


async def main() -> None:
    await prepare()
    session = f"session-{os.getpid()}"
    agent = PushConsumer("agent", namesrv=NAMESRV, on_message=think, consume_from="first")
    agent.subscribe("Prompts")
    async with agent, Producer("users", namesrv=NAMESRV) as users:
        await users.send(Message("Prompts", "the quick brown fox jumps", keys=session))
        await front("first front", session, 2)
        await front("second front", session, 100)


if __name__ == "__main__":
    asyncio.run(main())
