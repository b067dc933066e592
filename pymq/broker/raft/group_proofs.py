"""GroupProofs: how a node and the other members of its group prove themselves to each other."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.gate import MessageGate


@dataclass(frozen=True, slots=True)
class GroupProofs:
    """``messages`` proves what goes one way (9120, 9121), ``answers`` what answers a question."""

    messages: MessageGate
    answers: AnswerProof
