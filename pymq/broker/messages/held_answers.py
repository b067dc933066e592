"""Held answers: the encoded answers to sends, by connection, until their messages are safe."""

from __future__ import annotations

from typing import Protocol

from pymq.wire.command import FLAG_RESPONSE, Command, decode_command, encode_command


class AnswerTo(Protocol):
    """The connection that held answers go to."""

    def write(self, frame: bytes) -> None: ...

    def write_all(self, frames: list[bytes]) -> None: ...


# The encoded answers to sends that wait for their commit, by connection.
HeldAnswers = dict[AnswerTo, list[bytes]]


def hold(held: HeldAnswers, peer: AnswerTo, frame: bytes) -> None:
    """Keep the ready answer ``frame`` for ``peer``."""
    frames = held.get(peer)
    if frames is None:
        held[peer] = [frame]
    else:
        frames.append(frame)


def refuse(held: HeldAnswers, code: int, remark: str, *, is_stored: bool = False) -> None:
    """Send a refusal in place of every held answer: the message was not stored, or not safely enough.

    ``is_stored``: the message keeps its place in the log, and the answer its fields; Java's client reads them for such
    a code.
    """
    for peer, frames in held.items():
        for frame in frames:
            ready = decode_command(frame[4:])
            refusal = Command(
                code,
                opaque=ready.opaque,
                flag=FLAG_RESPONSE,
                remark=remark,
                ext=ready.ext if is_stored else {},
                serialize=ready.serialize,
            )
            peer.write(encode_command(refusal))


def release(held: HeldAnswers) -> None:
    """Send every held answer."""
    for peer, frames in held.items():
        peer.write_all(frames)
