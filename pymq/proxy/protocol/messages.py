"""The classes of the protocol's messages, made of the compiled definition when this module is imported.

They live in a pool of their own, so that a program may load another build of the same protocol beside them.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

from pymq.proxy.protocol.descriptor import DESCRIPTOR_SET_BASE85

PACKAGE = "apache.rocketmq.v2"
SERVICE = f"{PACKAGE}.MessagingService"

POOL = descriptor_pool.DescriptorPool()
POOL.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
POOL.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
for _file in descriptor_pb2.FileDescriptorSet.FromString(base64.b85decode(DESCRIPTOR_SET_BASE85)).file:
    POOL.AddSerializedFile(_file.SerializeToString())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


Timestamp = _class("google.protobuf.Timestamp")
Duration = _class("google.protobuf.Duration")
AckMessageEntry = _class(f"{PACKAGE}.AckMessageEntry")
AckMessageRequest = _class(f"{PACKAGE}.AckMessageRequest")
AckMessageResponse = _class(f"{PACKAGE}.AckMessageResponse")
AckMessageResultEntry = _class(f"{PACKAGE}.AckMessageResultEntry")
Address = _class(f"{PACKAGE}.Address")
Assignment = _class(f"{PACKAGE}.Assignment")
ChangeInvisibleDurationRequest = _class(f"{PACKAGE}.ChangeInvisibleDurationRequest")
ChangeInvisibleDurationResponse = _class(f"{PACKAGE}.ChangeInvisibleDurationResponse")
EndTransactionRequest = _class(f"{PACKAGE}.EndTransactionRequest")
EndTransactionResponse = _class(f"{PACKAGE}.EndTransactionResponse")
Endpoints = _class(f"{PACKAGE}.Endpoints")
FilterExpression = _class(f"{PACKAGE}.FilterExpression")
ForwardMessageToDeadLetterQueueRequest = _class(f"{PACKAGE}.ForwardMessageToDeadLetterQueueRequest")
ForwardMessageToDeadLetterQueueResponse = _class(f"{PACKAGE}.ForwardMessageToDeadLetterQueueResponse")
GetOffsetRequest = _class(f"{PACKAGE}.GetOffsetRequest")
GetOffsetResponse = _class(f"{PACKAGE}.GetOffsetResponse")
HeartbeatRequest = _class(f"{PACKAGE}.HeartbeatRequest")
HeartbeatResponse = _class(f"{PACKAGE}.HeartbeatResponse")
Message = _class(f"{PACKAGE}.Message")
MessageQueue = _class(f"{PACKAGE}.MessageQueue")
NotifyClientTerminationRequest = _class(f"{PACKAGE}.NotifyClientTerminationRequest")
NotifyClientTerminationResponse = _class(f"{PACKAGE}.NotifyClientTerminationResponse")
PullMessageRequest = _class(f"{PACKAGE}.PullMessageRequest")
PullMessageResponse = _class(f"{PACKAGE}.PullMessageResponse")
QueryAssignmentRequest = _class(f"{PACKAGE}.QueryAssignmentRequest")
QueryAssignmentResponse = _class(f"{PACKAGE}.QueryAssignmentResponse")
QueryOffsetRequest = _class(f"{PACKAGE}.QueryOffsetRequest")
QueryOffsetResponse = _class(f"{PACKAGE}.QueryOffsetResponse")
QueryRouteRequest = _class(f"{PACKAGE}.QueryRouteRequest")
QueryRouteResponse = _class(f"{PACKAGE}.QueryRouteResponse")
RecallMessageRequest = _class(f"{PACKAGE}.RecallMessageRequest")
RecallMessageResponse = _class(f"{PACKAGE}.RecallMessageResponse")
ReceiveMessageRequest = _class(f"{PACKAGE}.ReceiveMessageRequest")
ReceiveMessageResponse = _class(f"{PACKAGE}.ReceiveMessageResponse")
Resource = _class(f"{PACKAGE}.Resource")
SendMessageRequest = _class(f"{PACKAGE}.SendMessageRequest")
SendMessageResponse = _class(f"{PACKAGE}.SendMessageResponse")
SendResultEntry = _class(f"{PACKAGE}.SendResultEntry")
Settings = _class(f"{PACKAGE}.Settings")
Status = _class(f"{PACKAGE}.Status")
SyncLiteSubscriptionRequest = _class(f"{PACKAGE}.SyncLiteSubscriptionRequest")
SyncLiteSubscriptionResponse = _class(f"{PACKAGE}.SyncLiteSubscriptionResponse")
TelemetryCommand = _class(f"{PACKAGE}.TelemetryCommand")
UpdateOffsetRequest = _class(f"{PACKAGE}.UpdateOffsetRequest")
UpdateOffsetResponse = _class(f"{PACKAGE}.UpdateOffsetResponse")

HealthCheckRequest = _class("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = _class("grpc.health.v1.HealthCheckResponse")
ErrorResponse = _class("grpc.reflection.v1.ErrorResponse")
FileDescriptorResponse = _class("grpc.reflection.v1.FileDescriptorResponse")
ListServiceResponse = _class("grpc.reflection.v1.ListServiceResponse")
ServerReflectionRequest = _class("grpc.reflection.v1.ServerReflectionRequest")
ServerReflectionResponse = _class("grpc.reflection.v1.ServerReflectionResponse")
ServiceResponse = _class("grpc.reflection.v1.ServiceResponse")
