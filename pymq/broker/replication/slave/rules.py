"""What a slave answers to requests that it does not serve. The table of requests says which they are."""

from __future__ import annotations

from collections.abc import Callable

from pymq.errors import Refusal
from pymq.wire.command import Command
from pymq.wire.dispatch import Handler, Peer
from pymq.wire.reply import Reply


def leave_to_master(request: Command, header: None, peer: Peer) -> Reply:
    """Answer that nothing was done, as a success."""
    return Reply(remark="nothing was done here: a slave's tables follow its master's")


def refusal_text(broker_name: str, broker_id: int, master_address: str, what: str) -> str:
    """Return the text of a refusal; ``what`` the slave does not do. ``master_address`` is empty while it is unknown."""
    master = (
        f"at {master_address}"
        if master_address
        else "(not known yet: check that one is registered at the name servers)"
    )
    return f"{broker_name} is a slave (id {broker_id}) and {what}: ask its master {master}"


def refusing(code: int, what: str, text: Callable[[str], str]) -> Handler:
    """Return what refuses a request before its header is decoded. ``text`` makes the remark of ``what``."""

    def refuse(request: Command, header: None, peer: Peer) -> Reply:
        raise Refusal(code, text(what))

    return refuse
