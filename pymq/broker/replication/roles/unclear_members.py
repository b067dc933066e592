"""What a starting master does beside a member that may be the master and does not say what it is.

Such a member is running: it answers the request for its status with an error, or with something that is no status; or
it reports a newer epoch or the role of master, and does not answer the request for a proof. A true member answers as it
should in a moment: it starts, changes its role, or is busy. A program that only passes for one may answer so for ever.
Their answers can be the same, so the place that the member had in this group decides (``KnownPeers.is_confirmed``):

- Every unclear member is asked again for UNCLEAR_MS_MAX, except one that had no place and whose answer no broker
  sends: success without a status.
- After that, beside a member that had a place, this broker does not start as the master: two masters could get the same
  epoch number. The operator stops one of the two; a member that does not run does not count.
- Beside any other it starts, with a warning. A name server's list alone confirms no member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pymq.broker.replication.roles.group_probe import Member

UNCLEAR_MS_MAX = 15_000
RETRY_MS = 500


class StartDecision(NamedTuple):
    """``must_wait``: ask the members again after RETRY_MS. Else start, with ``warnings``, unless ``refusal`` says why
    not, with the next step."""

    must_wait: bool = False
    refusal: str = ""
    warnings: tuple[str, ...] = ()


def decide_start(
    broker_name: str, unclear: Sequence[Member], is_confirmed: Callable[[str], bool], waited_ms: int
) -> StartDecision:
    """Return what a master of ``broker_name`` does, that has asked for ``waited_ms``."""
    confirmed = [member for member in unclear if is_confirmed(member.address)]
    may_change = any(member in confirmed or not member.is_unreadable for member in unclear)
    if may_change and waited_ms < UNCLEAR_MS_MAX:
        return StartDecision(must_wait=True)
    if confirmed:
        return StartDecision(
            refusal=f"{confirmed[0].address} is a member of {broker_name} and may be its master; it "
            f"{_what(confirmed[0])}, for {UNCLEAR_MS_MAX} ms: start this broker again when that one answers, or stop "
            "that one first"
        )
    return StartDecision(
        warnings=tuple(
            f"{member.address} {_what(member)}; it had no place in {broker_name} that this broker knows of, so it does "
            "not count: stop it, or give it another --name"
            for member in unclear
        )
    )


def _what(member: Member) -> str:
    if member.is_unproven:
        return f"gives no proof of its epoch {member.epoch}: {member.doubt}"
    if member.is_unreadable:
        return "answers the request for its status with something else"
    return "starts or changes its role" if member.is_changing else "answers the request for its status with an error"
