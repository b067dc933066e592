"""A cluster that knows users: the URL's user signs, and a refusal names the right that is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kombu import Connection, Consumer, Exchange, Message, Producer, Queue

from pymq.client import Credentials
from pymq.client.sync import Admin, SimpleConsumer
from pymq.errors import RefusedError, UnreachableError
from pymq.model.tables import TopicConfig
from pymq.testing.broker import TestBroker
from pymq.testing.standalone import StandaloneProcess
from tests.certificates import certificates

ACCOUNTS = """\
globalWhiteRemoteAddresses: []
accounts:
  - accessKey: operator
    secretKey: operator-secret
    admin: true
  - accessKey: web-app
    secretKey: s3cret/and:more
    admin: false
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB
  - accessKey: tasks-sender
    secretKey: sender-secret
    admin: false
    defaultTopicPerm: PUB
    defaultGroupPerm: DENY
"""
QUEUE = Queue("tasks", Exchange("tasks"), routing_key="tasks")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    accounts = tmp_path_factory.mktemp("acl") / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    accounts.chmod(0o600)
    with TestBroker(aclEnable="true", plainAclFile=str(accounts)) as broker:
        with Admin(namesrv=broker.namesrv, credentials=Credentials("operator", "operator-secret")) as admin:
            for topic in ("kombu-tasks", "kombu-|"):
                admin.topics.put(broker.address, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        yield broker


def url(broker: TestBroker, login: str) -> str:
    return f"pymq://{login}@{broker.namesrv}/"


def test_a_user_without_admin_rights_uses_topics_that_exist(secured: TestBroker) -> None:
    with Connection(url(secured, "web-app:s3cret%2Fand%3Amore")) as connection:
        Producer(connection.default_channel, serializer="json").publish(1, routing_key="tasks", declare=[QUEUE])
        assert QUEUE(connection).get(no_ack=True).payload == 1


def test_such_a_user_gets_replies_requeues_and_gives_up(secured: TestBroker) -> None:
    private = Queue("mine", exclusive=True)
    with Connection(url(secured, "web-app:s3cret%2Fand%3Amore")) as connection:
        private(connection).declare()
        producer = Producer(connection.default_channel, serializer="json")
        producer.publish("reply", routing_key="mine", delivery_mode=1)
        assert private(connection).get(no_ack=True).payload == "reply"
        producer.publish("poison", routing_key="tasks", declare=[QUEUE])
        QUEUE(connection).get().reject(requeue=True)
        got: list[Message] = []
        with Consumer(connection.default_channel, [QUEUE], on_message=got.append):
            connection.drain_events(timeout=10)
        assert got[0].delivery_info["redelivered"]
        got[0].reject(requeue=False)
    operator = Credentials("operator", "operator-secret")
    with SimpleConsumer("looker", namesrv=secured.namesrv, credentials=operator) as consumer:
        (received,) = consumer.receive("%DLQ%kombu", wait_ms=5000)
    assert b"poison" in received.content()


def test_making_a_topic_is_refused_with_what_is_missing(secured: TestBroker) -> None:
    refused = pytest.raises(RefusedError, match="topic kombu-new does not exist, and this user may not create it: ")
    with Connection(url(secured, "web-app:s3cret%2Fand%3Amore")) as connection, refused as raised:
        Queue("new")(connection).declare()
    assert "web-app" in str(raised.value)


def test_a_pop_that_is_refused_fails_the_consumer_with_what_is_missing(secured: TestBroker) -> None:
    with Connection(url(secured, "tasks-sender:sender-secret")) as connection:
        Consumer(connection.default_channel, [QUEUE], callbacks=[print]).consume()
        with pytest.raises(RefusedError, match=r"tasks-sender.*(SUB|permission)"):
            connection.drain_events(timeout=10)


def test_a_wrong_secret_is_refused_and_not_shown(secured: TestBroker) -> None:
    with Connection(url(secured, "web-app:wrong-secret")) as connection:
        assert "wrong-secret" not in connection.as_uri()
        assert "wrong-secret" not in json.dumps(connection.transport.as_uri(connection.hostname))
        with pytest.raises(RefusedError) as raised:
            Producer(connection.default_channel, serializer="json").publish(1, routing_key="tasks", declare=[QUEUE])
    assert "wrong-secret" not in str(raised.value)


def test_celerys_ssl_setting_makes_it_tls() -> None:
    files = certificates()
    settings = {
        "tls.enable": "true",
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(files.server.cert_path),
        "tls.server.keyPath": str(files.server.key_path),
        "tls.client.trustCertPath": files.ca_path,
    }
    with StandaloneProcess(settings=settings) as server:
        with Connection(f"pymq://{server.namesrv}/", ssl={"ca_certs": files.ca_path}) as connection:
            Producer(connection.default_channel, serializer="json").publish(1, routing_key="tasks", declare=[QUEUE])
            assert QUEUE(connection).get(no_ack=True).payload == 1
        for ssl in (False, True):  # plain, and with the system's authorities
            connection = Connection(f"pymq://{server.namesrv}/", ssl=ssl)
            with pytest.raises(UnreachableError):
                connection.transport.establish_connection()
