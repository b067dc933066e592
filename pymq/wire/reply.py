"""Reply: what a handler answers, of a server or of a client that a server asks."""

from __future__ import annotations

from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_RESPONSE, Command
from pymq.wire.header import Header, encode_header


class Reply:
    """A handler's answer. ``ext`` may be a typed header or ready text fields."""

    __slots__ = ("body", "code", "ext", "remark")

    def __init__(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        ext: Header | dict[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        self.code = code
        self.remark = remark
        self.ext = ext
        self.body = body

    def to_command(self, request: Command) -> Command:
        """The response to ``request``, in the header codec the peer used."""
        ext = encode_header(self.ext) if isinstance(self.ext, Header) else self.ext or {}
        return Command(
            self.code,
            opaque=request.opaque,
            flag=FLAG_RESPONSE,
            remark=self.remark,
            ext=ext,
            body=self.body,
            serialize=request.serialize,
        )
