"""Admin calls about message traces: what clients wrote to the trace topic about one message."""

from __future__ import annotations

from dataclasses import dataclass, field

from pymq.client.admin.messages import MessageAdmin
from pymq.errors import NotFoundError
from pymq.model.compression import InflateError
from pymq.model.hosts import unpack_host
from pymq.model.names import TRACE_TOPIC
from pymq.model.record import StoredMessage
from pymq.model.trace import TraceRecord, decode_traces

TRACE_MESSAGE_COUNT_MAX = 64  # of one broker; mqadmin asks for as many


@dataclass(frozen=True, slots=True)
class Trace:
    """One record with the address (without the port) of the client that wrote it."""

    record: TraceRecord
    client_host: str


@dataclass(slots=True)
class Traces:
    """The records about one message, oldest trace message first, and what could not be decoded."""

    found: list[Trace] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    topic_exists: bool = True


class TraceAdmin:
    """Look-ups of message traces."""

    def __init__(self, messages: MessageAdmin) -> None:
        self._messages = messages

    async def of_message(self, message_id: str, topic: str = TRACE_TOPIC) -> Traces:
        """Return the traces of the message with this id, the one that its producer made.

        ``topic``: where clients write them. Records that can't be decoded are named in ``problems`` and left out.
        """
        traces = Traces()
        try:
            written = await self._messages.by_key(topic, message_id, count_max=TRACE_MESSAGE_COUNT_MAX)
        except NotFoundError:
            traces.topic_exists = False
            return traces
        for message in written:
            records = _records(message, traces.problems)
            host = unpack_host(message.born_host)[0]
            traces.found += [
                Trace(one, host) for one in records if message_id in (one.message_id, one.offset_message_id)
            ]
        return traces


def _records(message: StoredMessage, problems: list[str]) -> list[TraceRecord]:
    where = f"the trace message {message.offset_message_id}"
    try:
        text = message.content().decode()
    except (InflateError, UnicodeDecodeError) as error:
        problems.append(f"{where} can't be decoded: {error}")
        return []
    records, wrong = decode_traces(text)
    problems += [f"{where}: {problem}" for problem in wrong]
    return records
