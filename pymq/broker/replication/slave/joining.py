"""Joining: a slave's requests to its master before it opens the HA connection.

A PyMQ master decides itself (request 9101). A RocketMQ master doesn't know that request. Then the slave compares the
master's configuration and runtime table with its own, and continues without a token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from pymq.broker.replication.history.epoch_body import history_of_body
from pymq.broker.replication.history.epoch_history import EpochHistory, why_implausible
from pymq.broker.replication.history.log_end import last_segment_start
from pymq.broker.replication.history.log_proof import ProvenLog, ask_for_proof, piece_before
from pymq.broker.replication.peer_proof import NO_PROOF, PeerProof
from pymq.config.values import MASTER_ROLES
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import JOIN_PROOF, NO_TOKEN, JoinAnswer, JoinRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.ha import proven_answer
from pymq.wire.streams import Network

TIMEOUT_MS = 3000


class Joined(NamedTuple):
    """The master accepted the slave.

    ``start`` is the offset to continue at. If it is below the slave's log end, the slave must truncate its log first.
    None means that a RocketMQ master decides, see :class:`HaClientSession`. Of a RocketMQ master ``token`` is None and
    ``epoch_history`` empty. ``ha_address`` is empty when the master did not give it. ``log_end`` is the end of the
    master's log, -1 if unknown. ``unproven`` says why the master could not show that it has our log. A ``nonce`` asks
    for a proof that this slave has the servers' credentials. ``challenge``: what the master must prove the same about.
    """

    token: int | None
    ha_address: str
    start: int | None
    epoch_history: EpochHistory
    master_role: str = ""  # ASYNC_MASTER or SYNC_MASTER; empty if unknown
    log_end: int = -1
    unproven: str = ""
    nonce: bytes = b""
    challenge: bytes = b""


class NotJoined(NamedTuple):
    """The slave can't follow now. ``was_refused`` is False when there was no answer, so that a retry may help soon.

    ``is_other_log``: the master found that the slave's log is not a part of its own.
    """

    why: str
    was_refused: bool
    is_other_log: bool = False


Outcome = Joined | NotJoined


class Joining:
    """One attempt. ``on_outcome`` runs once, later; never after :meth:`abandon`."""

    def __init__(
        self,
        network: Network,
        address: str,
        request: JoinRequest,
        on_outcome: Callable[[Outcome], None],
        own_log: ProvenLog | None = None,
        peer_proof: PeerProof = NO_PROOF,
    ) -> None:
        """``own_log``: a PyMQ master must prove that it has our log up to where it would continue.

        ``peer_proof`` judges the proof that ``request`` asks for by its challenge.
        """
        self._own_log = own_log
        self._peer_proof = peer_proof
        self._network = network
        self._address = address
        self._request = request
        self._on_outcome: Callable[[Outcome], None] | None = on_outcome
        self._master_role = ""

    def begin(self) -> None:
        self._ask(RequestCode.PYMQ_JOIN_MASTER, self._answered, msgspec.json.encode(self._request))

    def abandon(self) -> None:
        """Drop the outcome."""
        self._on_outcome = None

    def _ask(self, code: int, on_answer: Callable[[Command], None], body: bytes = b"") -> None:
        def answered(answer: Command | str) -> None:
            if self._on_outcome is None:
                return
            if isinstance(answer, str):
                self._fail(answer, was_refused=False)
            else:
                on_answer(answer)

        self._network.ask(self._address, Command(code, body=body), answered, TIMEOUT_MS)

    def _fail(self, why: str, *, was_refused: bool = True) -> None:
        self._report(NotJoined(why, was_refused))

    def _report(self, outcome: Outcome) -> None:
        on_outcome, self._on_outcome = self._on_outcome, None
        if on_outcome is not None:
            on_outcome(outcome)

    # -- a PyMQ master -----------------------------------------------------------------------------------------------

    def _answered(self, answer: Command) -> None:
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._ask(RequestCode.GET_BROKER_CONFIG, self._compare_config)
        elif answer.code != ResponseCode.SUCCESS:
            # A broker that starts or changes its role answers so for a short time.
            is_no = answer.code != ResponseCode.SERVICE_NOT_AVAILABLE
            is_other_log = answer.code == ResponseCode.MESSAGE_ILLEGAL
            self._report(NotJoined(answer.remark or f"code {answer.code}", is_no, is_other_log))
        else:
            challenge = bytes.fromhex(self._request.challenge)
            proof = answer.ext.get(JOIN_PROOF, "").encode()
            if challenge and not self._peer_proof.is_right_hex(proven_answer(challenge, answer.body), proof):
                self._fail(
                    f"{self._address} did not prove to have the servers' credentials: give both brokers the same "
                    "innerCredentialsFile, and check which broker is there"
                )
            else:
                self._accept(answer.body)

    def _accept(self, body: bytes) -> None:
        try:
            answer = decode_json(body, JoinAnswer)
        except JsonError as error:
            self._fail(f"the answer of {self._address} to the join request can't be read: {error}")
            return
        start, end = self._request.log_start, self._request.log_end
        if start < end and not start <= answer.start <= end:
            self._fail(f"{self._address} would continue at {answer.start}, but our log goes from {start} to {end}")
            return
        if answer.token == NO_TOKEN and end in (start, answer.start):
            self._fail(f"{self._address} gave no token for its HA port, although our log needs no truncation")
            return
        epoch_history = history_of_body(answer.epoch_history)
        own_epoch = history_of_body(self._request.epoch_history).epoch
        if why := why_implausible(epoch_history, own_epoch):
            self._fail(f"the epoch history of {self._address} can't be true: {why}; check which broker is there")
            return
        self._prove(
            Joined(
                answer.token,
                answer.ha_address,
                answer.start,
                epoch_history,
                answer.master_role,
                answer.log_end,
                nonce=bytes.fromhex(answer.nonce),
                challenge=bytes.fromhex(self._request.challenge),
            )
        )

    def _prove(self, joined: Joined) -> None:
        """Report ``joined`` once the master has shown that it has our log up to where it would continue."""
        own_log = self._own_log
        assert joined.start is not None
        if own_log is None or own_log.start == own_log.end:
            self._report(joined)
            return
        piece = piece_before(own_log, joined.start)
        if piece is None:
            too_few = f"before offset {joined.start} are too few bytes to show that {self._address} has our log"
            self._report(joined._replace(unproven=too_few))
            return

        def answered(why: str, is_final: bool) -> None:
            if self._on_outcome is None:
                return
            if why:
                self._fail(why, was_refused=is_final)
            else:
                self._report(joined)

        ask_for_proof(self._network, self._address, own_log, piece, answered)

    # -- a RocketMQ master -------------------------------------------------------------------------------------------

    def _compare_config(self, answer: Command) -> None:
        if answer.code != ResponseCode.SUCCESS:
            self._fail(f"{self._address} does not know the join request and refuses its configuration: {answer.remark}")
            return
        lines = answer.body.decode(errors="replace").splitlines()
        found = dict(line.split("=", 1) for line in lines if "=" in line)
        request = self._request
        for key, ours in (
            ("brokerClusterName", request.cluster),
            ("brokerName", request.broker_name),
            ("mappedFileSizeCommitLog", str(request.segment_size_bytes)),
        ):
            if found.get(key) != ours:
                self._fail(
                    f"{key} is {found.get(key)} on the master at {self._address} and {ours} here: make them equal"
                )
                return
        if found.get("brokerRole") not in MASTER_ROLES:
            self._fail(f"{self._address} is not a master: its brokerRole is {found.get('brokerRole')}")
            return
        self._master_role = found["brokerRole"]
        self._ask(RequestCode.GET_BROKER_RUNTIME_INFO, self._compare_ends)

    def _compare_ends(self, answer: Command) -> None:
        """Check that our log can be a part of the master's.

        Java's master sends only heartbeats to a slave that reports an offset after its log's end.
        """
        try:
            table = decode_json(answer.body, dict[str, dict[str, str]]).get("table", {})
            start, end = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        except (JsonError, KeyError, ValueError):
            # Java's broker fails to build this table for some seconds after its start.
            why = f"{self._address} does not say where its log begins and ends: code {answer.code}, {answer.remark}"
            self._fail(why, was_refused=False)
            return
        request, ours = self._request, self._request.log_end
        is_empty = ours == request.log_start
        if not is_empty and not start <= ours <= end:
            self._fail(
                f"our log ends at {ours}, that of the master at {self._address} goes from {start} to {end}: they can't "
                f"be equal; move our directory away and start with an empty one"
            )
            return
        # A report of 0 gets the last segment; that may be the first one.
        has_more = start < last_segment_start(start, end, request.segment_size_bytes)
        first = start if is_empty and request.full_sync and has_more else None
        self._report(Joined(None, "", first, EpochHistory(), self._master_role, end))
