"""Options that many commands share: name servers and output format, and parsers for option values."""

# No postponed annotations here: Typer evaluates those of a callback once for each option of each command.

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pymq.cli.common.live import live
from pymq.cli.output import MessageOutput, OutputFormat
from pymq.errors import UsageError
from pymq.model.hosts import check_name_server, is_address_server
from pymq.units import split_name_servers

if TYPE_CHECKING:
    from pymq.security.credentials import Credentials

DEFAULT_NAMESRV = "127.0.0.1:9876"
DEFAULT_TIMEOUT_S = 5.0
TIMEOUT_MIN_S, TIMEOUT_MAX_S = 0.1, 3600.0

# How long each request of an admin command may take: the value of its option --timeout.
request_timeout_s: ContextVar[float] = ContextVar("request_timeout_s", default=DEFAULT_TIMEOUT_S)

# pymq.security.credentials reads them; named here so that a command without them need not import it.
CREDENTIAL_VARIABLES = ("PYMQ_CREDENTIALS_FILE", "PYMQ_ACCESS_KEY", "PYMQ_SECRET_KEY")
# The reference that names them; empty for those of the environment.
credentials_reference: ContextVar[str] = ContextVar("credentials_reference", default="")
# What the clients of a command sign with: see :mod:`pymq.cli.common.shared_options`.
request_credentials: "ContextVar[Credentials | None]" = ContextVar("request_credentials", default=None)


class KnownBrokers(NamedTuple):
    """The names of the brokers that a context says its cluster has. They hold for its own name servers alone."""

    namesrv: str
    names: tuple[str, ...]

    def missing_in(self, namesrv: str, listed: Iterable[str]) -> dict[str, str]:
        """Return the brokers that are not ``listed`` by name servers, with the reason for an error line."""
        from pymq.operations.unlisted import unlisted

        return unlisted(self.names, listed) if namesrv == self.namesrv else {}


# Those of the context that the command's name servers come from.
known_brokers: ContextVar[KnownBrokers | None] = ContextVar("known_brokers", default=None)

# In the meta of a run: the value of --context, and what was chosen by it or without it.
CONTEXT_KEY, CHOICE_KEY = "pymq.context", "pymq.choice"


def _of_context(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Return the name servers of the chosen context, which go before the environment, unless the flag is given."""
    choice = ctx.meta.get(CHOICE_KEY)
    source = ctx.get_parameter_source(param.name or "")
    if choice is None or (source is not None and source.name == "COMMANDLINE"):
        return value
    namesrv: str = choice.namesrv
    return namesrv


NamesrvOption = Annotated[
    str,
    typer.Option(
        "--namesrv",
        envvar="NAMESRV_ADDR",
        callback=_of_context,
        metavar="HOST:PORT;…",
        help="Name servers, separated by ';', or the URL of an HTTP(S) address server.",
    ),
]
OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format.")]
MessageOutputOption = Annotated[
    MessageOutput, typer.Option("--output", "-o", help="A line each, records, or bodies alone.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
GroupArgument = Annotated[str, typer.Argument(metavar="NAME", help="The consumer group.", autocompletion=live("group"))]
ClustersOption = Annotated[
    list[str] | None,
    typer.Option(
        "-c",
        "--cluster",
        metavar="CLUSTER",
        help="All brokers of this cluster; repeatable.",
        autocompletion=live("cluster"),
    ),
]
BrokersOption = Annotated[
    list[str] | None,
    typer.Option(
        "-b", "--broker", metavar="NAME|HOST:PORT", help="Only this broker; repeatable.", autocompletion=live("broker")
    ),
]
ConfirmOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]
ApplyOption = Annotated[bool, typer.Option("--yes", "-y", help="Apply the plan; without it, only show it.")]

InflateRatioOption = Annotated[
    int,
    typer.Option(
        "--inflate-ratio",
        metavar="N",
        min=1,
        help="Leave bodies compressed beyond 64 MB and N times the size of their messages.",
    ),
]

PERM_NAMES = {"R": 4, "W": 2, "RW": 6, "WR": 6, "2": 2, "4": 4, "6": 6}


def parse_perm(text: str | None) -> int | None:
    """Parse a permission: ``"RW"`` or ``"6"`` -> 6, ``"R"`` -> 4, ``"W"`` -> 2; None stays None. Raises UsageError."""
    if text is None:
        return None
    try:
        return PERM_NAMES[text.strip().upper().replace("-", "")]
    except KeyError:
        raise UsageError(f"{text!r} is not a permission: write RW (6), R (4) or W (2)") from None


def parse_pairs(pairs: Iterable[str], what: str) -> dict[str, str]:
    """Parse ``["a=1", "b=2"]`` into ``{"a": "1", "b": "2"}``; ``what`` names the option. Raises UsageError."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{what} {pair!r} is wrong: write NAME=VALUE")
        result[name.strip()] = value
    return result


def split_addresses(text: str) -> list[str]:
    """Split ``"a:1;b:2"`` (or with commas) into ``["a:1", "b:2"]``; a part may be the URL of an address server.

    Raises UsageError for another part.
    """
    addresses = split_name_servers(text)
    for address in addresses:
        if is_address_server(address):
            _check_url(address)
            continue
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"{address!r} is not a HOST:PORT address: write for example {DEFAULT_NAMESRV}")
    if not addresses:
        raise UsageError(f"no name server is given: write for example --namesrv {DEFAULT_NAMESRV}")
    return addresses


def _check_url(text: str) -> None:
    try:
        check_name_server(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
