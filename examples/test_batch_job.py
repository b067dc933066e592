"""Tests of batch_job.py: PyMQ's pytest plugin gives each test a broker of its own.

pip install '.[pytest]'
pytest test_batch_job.py
"""

import json

import batch_job
import pytest

from pymq.client import Message
from pymq.errors import NotFoundError


def pay(producer, topic, customer, amount):
    producer.send(Message(topic, json.dumps({"customer": customer, "amount": amount}).encode()))


def test_payments_are_added_up(pymq_broker, pymq_producer, pymq_topic, pymq_consumer):
    for customer, amount in [("ann", 3), ("bob", 5), ("ann", 4)]:
        pay(pymq_producer, "Payments", customer, amount)
    assert batch_job.run(pymq_broker.namesrv, "Payments", pymq_topic) == {"ann": 7, "bob": 5}
    sent = [json.loads(pymq_consumer.receive().body) for _ in range(2)]
    assert sent == [{"customer": "ann", "total": 7}, {"customer": "bob", "total": 5}]


def test_a_refused_send_is_tried_again(pymq_broker, pymq_producer, pymq_topic, pymq_consumer):
    pay(pymq_producer, "Payments", "ann", 3)
    with pymq_broker.refuse(topic=pymq_topic) as fault:
        batch_job.run(pymq_broker.namesrv, "Payments", pymq_topic)
    assert fault.hit_count == 1
    assert json.loads(pymq_consumer.receive().body)["total"] == 3


def test_without_the_topic_it_fails(pymq_broker, pymq_topic):
    with pytest.raises(NotFoundError, match="Payments"):
        batch_job.run(pymq_broker.namesrv, "Payments", pymq_topic)
