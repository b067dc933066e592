"""What is published: results of handlers, and the commands that pass the middlewares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack, cast

from faststream.response import BatchPublishCommand, PublishCommand, PublishType, Response

from pymq.errors import UsageError
from pymq.model.record import StoredMessage


class MessageOptions(TypedDict, total=False):
    """What a message has beside body and headers: fields of :class:`pymq.client.Message`, and an ordering key."""

    tags: str
    keys: str | Sequence[str]
    delay_ms: int
    delay_level: int
    ordering_key: str


class PublishOptions(MessageOptions, total=False):
    """The keywords of ``publish``."""

    headers: dict[str, str] | None
    correlation_id: str | None
    reply_to: str
    timeout: float | None


class PymqResponse(Response):
    """A handler's result, or one message of a batch, with its own headers, tag, keys, delay or ordering key."""

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.options = options

    def as_publish_command(self) -> PymqPublishCommand:
        """Return the command that publishes it."""
        return PymqPublishCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            options=self.options,
            _publish_type=PublishType.PUBLISH,
        )


PymqPublishMessage = PymqResponse


def check_options(what: str, given: Mapping[str, Any], known: type) -> None:
    """Raise UsageError for a keyword that a TypedDict lacks."""
    names = known.__annotations__
    if unknown := sorted(given.keys() - names.keys()):
        raise UsageError(f"{what} has no option {unknown[0]!r}: {', '.join(names)}")


def message_options(given: Mapping[str, Any]) -> MessageOptions:
    """Return those of the keywords that belong to messages."""
    return cast("MessageOptions", {name: given[name] for name in MessageOptions.__annotations__ if name in given})


class PymqPublishCommand(BatchPublishCommand):
    """A message, or a batch, on its way through the middlewares."""

    def __init__(
        self,
        body: Any,
        /,
        *bodies: Any,
        _publish_type: PublishType,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        timeout_s: float | None = None,
        options: MessageOptions | None = None,
    ) -> None:
        super().__init__(
            body,
            *bodies,
            _publish_type=_publish_type,
            destination=topic,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
        )
        self.options: MessageOptions = options or {}
        self.timeout_s = timeout_s
        self.request: StoredMessage | None = None  # what a reply answers

    @classmethod
    def of(
        cls, kind: PublishType, bodies: Sequence[Any], topic: str, options: PublishOptions, new_id: Callable[[], str]
    ) -> PymqPublishCommand:
        """Return the command for a call of ``publish`` or its like. Raises UsageError for an unknown option."""
        check_options("a message", options, PublishOptions)
        return cls(
            *(bodies or (None,)),
            _publish_type=kind,
            topic=topic,
            headers=options.get("headers"),
            correlation_id=options.get("correlation_id") or new_id(),
            reply_to=options.get("reply_to", ""),
            timeout_s=options.get("timeout"),
            options=message_options(options),
        )

    @classmethod
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> PymqPublishCommand:
        """Return a command of any broker as one of this broker."""
        if isinstance(cmd, PymqPublishCommand):
            return cmd
        body, bodies = cls._parse_bodies(cmd.body, batch=batch)
        return cls(
            body,
            *bodies,
            topic=cmd.destination,
            headers=cmd.headers,
            correlation_id=cmd.correlation_id,
            reply_to=cmd.reply_to,
            _publish_type=cmd.publish_type,
        )
