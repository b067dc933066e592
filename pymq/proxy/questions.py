"""Questions of operators to consumers: what their threads do (307), and how they take one message (309).

A broker asks the proxy as it asks a remoting client. The proxy asks the client on its Telemetry stream.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.model.names import RETRY_PREFIX
from pymq.model.properties import RETRY_TOPIC
from pymq.model.record import MalformedRecordError, decode_record
from pymq.proxy.bodies import given_body
from pymq.proxy.calls import Call
from pymq.proxy.clients import Stream
from pymq.proxy.conversion import message_of
from pymq.proxy.memberships import consumer_data
from pymq.proxy.protocol.messages import TelemetryCommand
from pymq.proxy.protocol.names import Code
from pymq.proxy.sessions import Session, Sessions
from pymq.wire.bodies_admin import ConsumeDirectlyResult, ConsumerRunningInfo, encode_admin_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.admin import ConsumeDirectlyHeader, ConsumerRunningInfoHeader
from pymq.wire.reply import Reply

ANSWER_TIMEOUT_S = 9.0  # a broker waits for 10 s
STACKS_LENGTH_MAX = 1024 * 1024  # of the text that a client answers
ANSWERS = ("thread_stack_trace", "verify_message_result")
_RESULTS = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}


class Questions:
    """Asks clients, and keeps which answers are still to come."""

    def __init__(self, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self._numbers = itertools.count(1)
        self._open: dict[tuple[str, str], asyncio.Future[Any]] = {}  # by client id and nonce

    async def ask(self, command: Command, address: str) -> Reply:
        """Return the answer to a broker's request about a member."""
        try:
            return await self._ask(command)
        except Refusal as error:
            return Reply(error.code, error.remark)

    async def _ask(self, command: Command) -> Reply:
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return await self._running_info(decode_header(ConsumerRunningInfoHeader, command.ext))
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return await self._consume(decode_header(ConsumeDirectlyHeader, command.ext), command.body)
        text = f" request type {command.code} not supported by this proxy"
        return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)

    def answered(self, call: Call, command: Any) -> None:
        """Take a client's answer; one that nobody waits for, or of another user, changes nothing."""
        kind = command.WhichOneof("command")
        nonce = getattr(command, kind).nonce if kind in ANSWERS else ""
        waiting = self._open.get((call.client_id, nonce))
        session = self._sessions.find(call.client_id)
        if waiting is not None and not waiting.done() and session is not None and session.user == call.user:
            waiting.set_result(command)

    async def _running_info(self, header: ConsumerRunningInfoHeader) -> Reply:
        session = self._member(header.consumer_group, header.client_id)
        stacks = None
        if header.jstack_enable:
            question = TelemetryCommand()
            question.print_thread_stack_trace_command.nonce = nonce = self._nonce()
            answer = await self._answer(session, nonce, question)
            stacks = answer.thread_stack_trace.thread_stack_trace[:STACKS_LENGTH_MAX]
        data = consumer_data(session)
        info = ConsumerRunningInfo(
            properties={
                "PROP_CONSUME_TYPE": str(data.consume_type),
                "PROP_CONSUMEORDERLY": "true" if session.settings.subscription.fifo else "false",
                "PROP_CLIENT_VERSION": session.version,
            },
            subscription_set=data.subscription_data_set or [],
            jstack=stacks,
        )
        return Reply(body=encode_admin_body(info))

    async def _consume(self, header: ConsumeDirectlyHeader, body: bytes) -> Reply:
        session = self._member(header.consumer_group, header.client_id or "")
        try:
            stored = decode_record(body)
        except MalformedRecordError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the message can't be read: {error}") from error
        is_retry = stored.topic.startswith(RETRY_PREFIX)
        topic = stored.properties.get(RETRY_TOPIC, stored.topic) if is_retry else stored.topic
        question = TelemetryCommand()
        question.verify_message_command.nonce = nonce = self._nonce()
        given = await given_body(stored.body, stored.sys_flag, session.language)
        question.verify_message_command.message.CopyFrom(message_of(stored, topic, body=given))
        began_ms = self._clock.monotonic_ms()
        answer = await self._answer(session, nonce, question)
        result = ConsumeDirectlyResult(
            order=session.settings.subscription.fifo,
            consume_result=_RESULTS.get(answer.status.code, "CR_THROW_EXCEPTION"),
            remark=answer.status.message or None,
            spent_time_mills=self._clock.monotonic_ms() - began_ms,
        )
        return Reply(body=encode_admin_body(result))

    def _nonce(self) -> str:
        return str(next(self._numbers))

    def _member(self, group: str, client_id: str) -> Session:
        session = self._sessions.find(client_id)
        if session is None or session.group != group:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        return session

    async def _answer(self, session: Session, nonce: str, question: Any) -> Any:
        """Return the client's answer. Raises Refusal when none comes."""
        key = session.client_id, nonce
        waiting = self._open[key] = asyncio.get_running_loop().create_future()
        try:
            if not isinstance(session.stream, Stream) or not session.stream.send(question):
                text = f"consumer <{session.client_id}> reads no commands: its Telemetry stream has ended or is full"
                raise Refusal(ResponseCode.SYSTEM_ERROR, text)
            return await asyncio.wait_for(waiting, ANSWER_TIMEOUT_S)
        except TimeoutError:
            text = f"consumer <{session.client_id}> gave no answer within {ANSWER_TIMEOUT_S:.0f} s"
            raise Refusal(ResponseCode.CONSUME_MSG_TIMEOUT, text) from None
        finally:
            del self._open[key]
