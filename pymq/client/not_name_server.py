"""What to say when a server that is used as a name server serves no request of name servers: it is a broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from pymq.errors import PymqError, UsageError
from pymq.printable import printable
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.settings_text import decode_settings

SHOWN_LENGTH_MAX = 200  # characters of a name or addresses, which a server chooses
# What every name server serves, also RocketMQ's: who doesn't is none.
_SERVED = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }
)


def is_strange(code: int, answer_code: int) -> bool:
    """Return True when no name server answers a request ``code`` so."""
    return answer_code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in _SERVED


async def not_name_server_error(address: str, ask: Callable[[Command], Awaitable[Command]]) -> UsageError:
    """Return the error that says what ``address`` is. ``ask`` sends it one more request.

    It names the broker and its name servers, if it is one and tells.
    """
    settings: dict[str, str] = {}
    with suppress(PymqError):
        answer = await ask(request(RequestCode.GET_BROKER_CONFIG, None))
        settings = decode_settings(answer.body) if answer.code == ResponseCode.SUCCESS else {}
    name, known = (printable(settings.get(key, ""))[:SHOWN_LENGTH_MAX] for key in ("brokerName", "namesrvAddr"))
    if not name:
        return UsageError(f"{address} is no name server, it may be a broker: give the address of a name server")
    step = f"its name servers are {known}" if known else "it doesn't say what its name servers are"
    return UsageError(f"{address} is the broker {name}, not a name server: {step}")
