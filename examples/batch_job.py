"""A batch job: adds up the payments of a topic, and sends the sum of each customer. test_batch_job.py tests it.

python batch_job.py
"""

import json
import os
from collections import defaultdict

from pymq.client import Message, PullStatus
from pymq.client.sync import Producer, PullConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


def payments(pull: PullConsumer, topic: str):
    """Yield the payments that are there now; what comes meanwhile is for the next run."""
    for queue in pull.queues(topic):
        offset, end = pull.min_offset(queue), pull.max_offset(queue)
        while offset < end:
            result = pull.pull(queue, offset)
            if result.status is PullStatus.FOUND:
                for message in result.messages():
                    if message.queue_offset < end:
                        yield json.loads(message.content())
            offset = result.next_offset


def run(namesrv: str, topic: str, sums_topic: str) -> dict[str, float]:
    """Add up, and send a message for each customer. Return customer -> sum."""
    sums: dict[str, float] = defaultdict(float)
    with PullConsumer("sums", namesrv=namesrv) as pull:
        for payment in payments(pull, topic):
            sums[payment["customer"]] += payment["amount"]
    with Producer("sums", namesrv=namesrv) as producer:
        for customer, total in sorted(sums.items()):
            producer.send(
                Message(sums_topic, json.dumps({"customer": customer, "total": total}).encode(), keys=customer)
            )
    return dict(sums)


if __name__ == "__main__":
    for name, total in run(NAMESRV, "Payments", "Sums").items():
        print(f"{name}: {total}")
