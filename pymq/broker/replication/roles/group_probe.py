"""GroupProbe: the members of a group of brokers at this moment.

Name servers say which brokers are registered; then each of these gives its own status. Apache's name servers and
brokers work, too; such a broker answers, but has no epoch history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from pymq.broker.replication.history.epoch_body import history_of_body
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.errors import PymqError
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import ReplicationStatus, StatusRequest
from pymq.wire.bodies_route import decode_cluster_info
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.streams import Network

ASK_TIMEOUT_MS = 2000
MEMBER_COUNT_MAX = 256  # of one broker name; further ones that a name server lists are ignored

# Answers to a request for the status that have a meaning here: a status, RocketMQ's broker, one that starts or changes.
_TELLING_CODES = {
    ResponseCode.SUCCESS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ResponseCode.SERVICE_NOT_AVAILABLE,
}

Answer = Command | str


@dataclass(frozen=True, slots=True)
class Member:
    """One broker at ``address`` ("host:port").

    ``registered_id`` is its id at the name servers, -1 when they don't know it. ``answered``: it is running. ``status``
    is None when it answers without one (Apache's). ``is_changing``: it starts or changes its role, and has no status
    yet. ``is_failing``: it answers with another error than RocketMQ's brokers. ``is_unreadable``: its answer means
    success and is no status. ``doubt`` says why the epochs in its status are not believed
    (:class:`.member_proof.MemberProof`); ``is_unproven``: it gave no proof yet, nor a wrong one.
    """

    address: str
    registered_id: int
    answered: bool
    status: ReplicationStatus | None = None
    is_changing: bool = False
    is_failing: bool = False
    is_unreadable: bool = False
    doubt: str = ""
    is_unproven: bool = False

    @property
    def broker_id(self) -> int:
        """The id in its status, or else at the name servers."""
        return self.status.broker_id if self.status is not None else self.registered_id

    @property
    def epoch(self) -> int:
        """The number of its newest epoch; 0 without epochs or status."""
        return self.status.epoch_history[-1].epoch if self.status is not None and self.status.epoch_history else 0

    @property
    def epoch_history(self) -> EpochHistory:
        """The epoch history in its status; empty without one."""
        return history_of_body(self.status.epoch_history) if self.status is not None else EpochHistory()

    @property
    def is_unclear(self) -> bool:
        """True when the broker runs, and its answer does not say whether it is a master or a slave."""
        return self.is_changing or self.is_failing or self.is_unreadable or self.is_unproven

    def is_of(self, cluster: str, broker_name: str) -> bool:
        """Return False when its status names another group. Name servers list brokers by their name only."""
        status = self.status
        return status is None or (status.cluster == cluster and status.broker_name == broker_name)


CheckMembers = Callable[[list[Member], Callable[[list[Member]], None]], None]


class GroupProbe:
    """Probes the group of one broker name. Each :meth:`take` is independent of the others."""

    def __init__(
        self,
        network: Network,
        broker_name: str,
        on_listed: Callable[[Mapping[str, int]], None] = lambda registered: None,
        check: CheckMembers | None = None,
    ) -> None:
        """``on_listed`` gets address -> id each time name servers were asked; empty when none of them answered.

        ``check`` gives the members their doubts, see :meth:`.member_proof.MemberProof.check`.
        """
        self._check = check
        self._network = network
        self._on_listed = on_listed
        self._broker_name = broker_name
        # The last answer of each name server, raw and decoded: it rarely changes, and is needed every few seconds.
        self._heard: dict[str, tuple[bytes, dict[str, int]]] = {}

    def registered(self, name_servers: Iterable[str], on_done: Callable[[dict[str, int]], None]) -> None:
        """Call ``on_done`` later with address -> id of the brokers that the answering name servers have."""
        found: dict[str, int] = {}

        def taker(server: str) -> Callable[[Answer], None]:
            return lambda answer: found.update(self._addresses(server, answer))

        command = RequestCode.GET_BROKER_CLUSTER_INFO
        questions = [(server, command, taker(server)) for server in name_servers]
        self._heard = {server: self._heard[server] for server, _, _ in questions if server in self._heard}

        def done() -> None:
            self._on_listed(found)
            on_done(found)

        _ask_all(self._network, questions, done)

    def _addresses(self, server: str, answer: Answer) -> dict[str, int]:
        if isinstance(answer, str) or answer.code != ResponseCode.SUCCESS:
            return {}
        body, addresses = self._heard.get(server, (None, {}))
        if body != answer.body:
            addresses = _addresses(answer.body, self._broker_name)
            self._heard[server] = answer.body, addresses
        return addresses

    def take(
        self,
        name_servers: Iterable[str],
        own_address: str,
        on_done: Callable[[list[Member]], None],
        also: Iterable[str] = (),
    ) -> None:
        """Call ``on_done`` later with the group's members, except the one at ``own_address``.

        Brokers at the addresses ``also`` are asked even if they are not registered.
        """
        self.registered(name_servers, lambda registered: self.members(registered, own_address, on_done, also))

    def members(
        self,
        registered: Mapping[str, int],
        own_address: str,
        on_done: Callable[[list[Member]], None],
        also: Iterable[str] = (),
        *,
        is_master: bool = False,
    ) -> None:
        """Do the same as :meth:`take` with known registrations. ``is_master``: the requests name us as a master."""
        addresses = dict.fromkeys([*registered, *also])
        addresses.pop(own_address, None)
        members: list[Member] = []

        def taker(address: str) -> Callable[[Answer], None]:
            return lambda answer: members.append(_member(address, registered.get(address, -1), answer))

        code = RequestCode.PYMQ_GET_REPLICATION_STATUS
        asked = [(address, code, taker(address)) for address in list(addresses)[:MEMBER_COUNT_MAX]]
        body = msgspec.json.encode(StatusRequest(master=own_address)) if is_master else b""

        def done() -> None:
            found = sorted(members, key=lambda member: member.address)
            if self._check is None:
                on_done(found)
            else:
                self._check(found, on_done)

        _ask_all(self._network, asked, done, body)


def _ask_all(
    network: Network,
    questions: list[tuple[str, int, Callable[[Answer], None]]],
    on_done: Callable[[], None],
    body: bytes = b"",
) -> None:
    """Send all requests together. ``on_done`` runs after the last answer; at once without requests."""
    waiting = len(questions)
    if not waiting:
        on_done()
        return

    def answered(take: Callable[[Answer], None], answer: Answer) -> None:
        nonlocal waiting
        waiting -= 1
        take(answer)
        if not waiting:
            on_done()

    for address, code, take in questions:

        def on_answer(answer: Answer, take: Callable[[Answer], None] = take) -> None:
            answered(take, answer)

        network.ask(address, request(code, None, body), on_answer, ASK_TIMEOUT_MS)


def _addresses(cluster_info: bytes, broker_name: str) -> dict[str, int]:
    try:
        data = decode_cluster_info(cluster_info).broker_addr_table.get(broker_name)
    except PymqError:
        return {}
    return {address: broker_id for broker_id, address in data.broker_addrs.items()} if data is not None else {}


def _member(address: str, registered_id: int, answer: Answer) -> Member:
    if isinstance(answer, str):
        return Member(address, registered_id, answered=False)
    status = None
    if answer.code == ResponseCode.SUCCESS:
        with suppress(JsonError):
            status = decode_json(answer.body, ReplicationStatus)
    return Member(
        address,
        registered_id,
        answered=True,
        status=status,
        is_changing=answer.code == ResponseCode.SERVICE_NOT_AVAILABLE,
        is_failing=answer.code not in _TELLING_CODES,
        is_unreadable=answer.code == ResponseCode.SUCCESS and status is None,
    )
