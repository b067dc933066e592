"""Elections: who votes for whom (§5.2, §5.4.1), and pre-votes, which disturb nobody (dissertation §9.6)."""

from __future__ import annotations

from pymq.raft.core import Core
from pymq.raft.messages import PreVoteAnswer, PreVoteRequest, VoteAnswer, VoteRequest
from pymq.raft.state import Membership, Position, Replica


class Ballot:
    """The answers to one candidate's request. Only voters of the membership count, each once."""

    def __init__(self, candidate: Replica) -> None:
        self._granted = {candidate}
        self._refused: set[Replica] = set()

    def count(self, voter: Replica, *, is_granted: bool) -> None:
        (self._granted if is_granted else self._refused).add(voter)

    def is_won(self, membership: Membership) -> bool:
        return len(self._granted & membership.voters) >= membership.majority_count

    def is_lost(self, membership: Membership) -> bool:
        return len(self._refused & membership.voters) >= membership.majority_count


def is_up_to_date(core: Core, last: Position) -> bool:
    """Return True when a log that ends at ``last`` has all that this one has confirmed (§5.4.1)."""
    return last >= core.log.last


def ask_pre_votes(core: Core) -> Ballot:
    """Ask who would vote for this node. Its term stays."""
    for voter in core.other_voters():
        core.outbox.append(PreVoteRequest(core.me, voter, core.term, core.log.last))
    return Ballot(core.me)


def ask_votes(core: Core, *, is_transfer: bool) -> Ballot:
    """Enter the next term and vote for oneself (§5.2). The state is saved before a message leaves."""
    core.enter(core.term + 1)
    core.vote = core.me
    for voter in core.other_voters():
        core.outbox.append(VoteRequest(core.me, voter, core.term, core.log.last, is_transfer))
    return Ballot(core.me)


def answer_pre_vote(core: Core, request: PreVoteRequest, *, hears_leader: bool) -> bool:
    """Say whether this node would vote for the sender in the term after its own. Returns what it said."""
    would = request.term >= core.term and not hears_leader and is_up_to_date(core, request.last)
    core.outbox.append(PreVoteAnswer(core.me, request.sender, core.term, request.term, would))
    return would


def answer_vote(core: Core, request: VoteRequest) -> bool:
    """Vote once in this term, for a log that is up to date. Returns whether the vote was given."""
    is_granted = core.vote in (None, request.sender) and is_up_to_date(core, request.last)
    if is_granted:
        core.vote = request.sender
    core.outbox.append(VoteAnswer(core.me, request.sender, core.term, is_granted))
    return is_granted
