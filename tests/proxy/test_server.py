"""A proxy on real sockets in front of a broker, asked by a raw client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("grpc")

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from pymq.proxy.metrics import ProxyMetrics
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.proxy.protocol.names import ClientType, Code, MessageType, Permission
from pymq.proxy.server import ProxyServer
from pymq.testing.broker import TestBroker
from tests.proxy.harness import BROKER, RawClient, create_group, create_topic, with_client

TRACE_CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        create_topic(broker, "GrpcServer")
        yield broker


def test_a_route_has_the_endpoints_of_its_question(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        request = m.QueryRouteRequest(topic=m.Resource(name="GrpcServer"))
        request.endpoints.addresses.add(host="proxy.example", port=8081)
        answer = await client.call("QueryRoute", request)
        assert answer.status.code == Code.OK
        assert [queue.id for queue in answer.message_queues] == [0, 1]
        for queue in answer.message_queues:
            assert queue.permission == Permission.READ_WRITE
            assert (queue.broker.name, queue.broker.id) == (BROKER, 0)
            assert queue.broker.endpoints == request.endpoints
            assert list(queue.accept_message_types) == [MessageType.NORMAL]

    with_client(broker, work)


def test_a_message_is_sent_received_and_acknowledged(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        message = client.message("GrpcServer", b"hello", tag="red", keys=["k1", "k2"], born_host="elsewhere")
        message.system_properties.trace_context = TRACE_CONTEXT
        message.user_properties["colour"] = "blue"
        sent = await client.call("SendMessage", m.SendMessageRequest(messages=[message]))
        assert sent.status.code == Code.OK
        (entry,) = sent.entries
        assert entry.message_id == entry.transaction_id == message.system_properties.message_id
        (found,) = await client.receive("GrpcServer", "GroupOne")
        system = found.system_properties
        assert (found.body, dict(found.user_properties)) == (b"hello", {"colour": "blue"})
        assert (system.tag, list(system.keys), system.born_host) == ("red", ["k1", "k2"], "elsewhere")
        assert (system.message_id, system.trace_context) == (message.system_properties.message_id, TRACE_CONTEXT)
        assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
        assert (system.delivery_attempt, system.message_type) == (1, MessageType.NORMAL)
        assert await client.ack("GroupOne", found) == Code.OK
        assert await client.ack("GroupOne", found) == Code.OK, "twice within its time"

    with_client(broker, work)


def test_unknown_topics_and_missing_names_have_their_codes(broker: TestBroker) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        unknown = m.QueryRouteRequest(topic=m.Resource(name="GrpcNowhere"))
        assert (await client.call("QueryRoute", unknown)).status.code == Code.TOPIC_NOT_FOUND
        assert (await client.send("GrpcNowhere")).status.code == Code.TOPIC_NOT_FOUND
        assert (await client.received("GrpcNowhere", "GroupOne", 9.0))[0] == Code.TOPIC_NOT_FOUND
        nobody = RawClient(client.address, "")
        assert (await nobody.call("QueryRoute", unknown)).status.code == Code.CLIENT_ID_REQUIRED
        assert (await nobody.received("GrpcServer", "GroupOne", 9.0))[0] == Code.CLIENT_ID_REQUIRED
        await nobody.close()
        stranger = RawClient(client.address, "stranger")
        heartbeat = await stranger.call("Heartbeat", m.HeartbeatRequest(client_type=ClientType.PRODUCER))
        assert heartbeat.status.code == Code.UNRECOGNIZED_CLIENT_TYPE
        await stranger.close()
        assert (await client.received("GrpcServer", "Group One", 9.0))[0] == Code.ILLEGAL_CONSUMER_GROUP
        assert (await client.received("GrpcServer", "GroupOne", 2.0))[0] == Code.BAD_REQUEST, "a deadline too near"
        short = m.Duration(seconds=9)
        code, _ = await client.received("GrpcServer", "GroupOne", 9.0, invisible_duration=short)
        assert code == Code.ILLEGAL_INVISIBLE_TIME
        assert [each.client_id for each in server.service.sessions.all()] == ["client"]

    with_client(broker, work)


def test_settings_are_answered_and_the_client_is_known_until_it_leaves(broker: TestBroker) -> None:
    create_group(broker, "GrpcOrdered", consume_message_orderly=True, retry_max_times=2)

    async def work(client: RawClient, server: ProxyServer) -> None:
        stream = client.telemetry()
        settings = m.Settings(client_type=ClientType.PUSH_CONSUMER)
        settings.subscription.group.name = "GrpcOrdered"
        await stream.write(m.TelemetryCommand(settings=settings))
        answer = await stream.read()
        assert answer.status.code == Code.OK
        subscription, policy = answer.settings.subscription, answer.settings.backoff_policy
        assert (subscription.fifo, subscription.receive_batch_size) == (True, 32)
        assert subscription.long_polling_timeout.seconds == 20
        assert (policy.max_attempts, len(policy.customized_backoff.next)) == (3, 18)
        heartbeat = await client.call("Heartbeat", m.HeartbeatRequest(client_type=ClientType.PUSH_CONSUMER))
        assert heartbeat.status.code == Code.OK
        end = await client.call("NotifyClientTermination", m.NotifyClientTerminationRequest())
        assert end.status.code == Code.OK
        await stream.done_writing()
        assert await stream.read() == grpc.aio.EOF
        assert len(server.service.sessions) == 0

    with_client(broker, work)


def test_health_and_reflection_are_served(broker: TestBroker) -> None:
    async def work(client: RawClient, _: ProxyServer) -> None:
        health = health_pb2_grpc.HealthStub(client.channel)
        for name in ("", SERVICE):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await health.Check(health_pb2.HealthCheckRequest(service="other"))
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
        reflection = reflection_pb2_grpc.ServerReflectionStub(client.channel)
        questions = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
        ]
        listed, file = [answer async for answer in reflection.ServerReflectionInfo(iter(questions))]
        assert SERVICE in [service.name for service in listed.list_services_response.service]
        described = [
            FileDescriptorProto.FromString(each) for each in file.file_descriptor_response.file_descriptor_proto
        ]
        methods = {method.name for each in described for service in each.service for method in service.method}
        assert {"PullMessage", "QueryOffset"} <= methods

    with_client(broker, work)


def test_the_figures_of_a_proxy(broker: TestBroker) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        settings = m.Settings(client_type=ClientType.PRODUCER)
        settings.publishing.topics.add(name="GrpcServer")
        stream = await client.settle(settings)
        await client.send("GrpcServer")
        await client.send("GrpcNowhere")
        figures = {
            (family.metric.name, *reading.labels): reading.value
            for family in ProxyMetrics(server).collect()
            for reading in family.readings
        }
        assert figures["pymq_proxy_calls_total", "SendMessage", "OK"] == 1
        assert figures["pymq_proxy_calls_total", "SendMessage", "TOPIC_NOT_FOUND"] == 1
        assert figures["pymq_proxy_clients", "PRODUCER"] == 1
        assert figures["pymq_proxy_connections",] == 1
        assert ProxyMetrics(server).labels() == {"node_id": server.address, "node_type": "proxy"}
        stream.cancel()

    with_client(broker, work)


def test_settings_are_answered_though_the_client_says_no_more(broker: TestBroker) -> None:
    async def work(client: RawClient, server: ProxyServer) -> None:
        settings = m.Settings(client_type=ClientType.PRODUCER)
        settings.publishing.topics.add(name="GrpcServer")
        for _ in range(5):
            stream = client.telemetry()
            await stream.write(m.TelemetryCommand(settings=settings))
            await stream.done_writing()
            assert (await stream.read()).WhichOneof("command") == "settings"
            assert await stream.read() == grpc.aio.EOF

    with_client(broker, work)
