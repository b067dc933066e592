"""LogReader: reads another member's log (9106), and takes proven answers alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pymq.broker.raft.answer_proof import AnswerProof, log_bytes_at
from pymq.wire.bodies_replication import ReadLogRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.streams import Network

ASK_TIMEOUT_MS = 5000


class LogReader:
    """What a node asks of other members' logs."""

    def __init__(self, network: Network, proof: AnswerProof) -> None:
        self._network = network
        self._proof = proof

    def ask(
        self, address: str, start: int, size_bytes: int, on_data: Callable[[memoryview | bytes], None],
        on_failure: Callable[[str], None],
    ) -> None:  # fmt: skip
        """Ask for bytes from ``start`` on; one of the two is called with what came, or with why nothing did."""
        challenge = self._proof.challenge()
        body = msgspec.json.encode(ReadLogRequest(start=start, size_bytes=size_bytes, challenge=challenge))

        def answered(answer: Command | str) -> None:
            if isinstance(answer, str):
                on_failure(answer)
            elif answer.code != ResponseCode.SUCCESS or not answer.body:
                on_failure(f"code {answer.code}: {answer.remark}")
            elif why := self._proof.why_not(challenge, log_bytes_at(start), answer):
                on_failure(why)
            elif len(answer.body) > size_bytes:
                on_failure(f"{len(answer.body)} bytes, {size_bytes} were asked for")
            else:
                on_data(answer.body)

        self._network.ask(address, request(RequestCode.PYMQ_READ_LOG, None, body), answered, ASK_TIMEOUT_MS)
