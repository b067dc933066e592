"""The console's figures for Prometheus: answers, people, log-ins, and what clusters were asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pymq
from pymq.console.asking.clusters import Clusters
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Sessions
from pymq.console.web.counting import Counted
from pymq.console.web.streams import Streams
from pymq.metrics.family import Collector, Family, Reading, counter, gauge, single

NODE_TYPE = "console"

INFO = gauge("pymq_console_info", "Always 1; the label says which version runs.", "pymq_version")
ANSWERS = counter("pymq_console_answers_total", "Answers to browsers by their HTTP status.", "status")
SESSIONS = gauge("pymq_console_sessions", "People who are logged in.")
FAILURES = counter("pymq_console_log_in_failures_total", "Log-ins with a wrong secret, or while an address is locked.")
CLIENTS = gauge("pymq_console_clients", "People with connections to a cluster, nobody in particular counts as one.")
QUESTIONS = counter(
    "pymq_console_questions_total", "Questions that clusters were asked; those answered from memory are not counted."
)
KEPT = gauge("pymq_console_kept_answers_bytes", "Memory that kept answers of clusters take, about.", unit="bytes")
STREAMS = gauge("pymq_console_streams", "Live pages that are open.")
REFUSED_STREAMS = counter("pymq_console_streams_refused_total", "Live pages that were too many, of a person or in all.")


@dataclass(frozen=True)
class ConsoleMetrics:
    """All figures of one console. ``url``: where it is."""

    url: str
    counted: Counted
    sessions: Sessions
    log_ins: LogIns
    clusters: Clusters
    streams: Streams

    metrics = (INFO, ANSWERS, SESSIONS, FAILURES, CLIENTS, QUESTIONS, KEPT, STREAMS, REFUSED_STREAMS)
    budget = None

    def labels(self) -> dict[str, str]:
        """Return the labels of every metric of the process."""
        return {"node_id": self.url, "node_type": NODE_TYPE}

    def collectors(self) -> Sequence[Collector]:
        """Return what yields the figures."""
        return [self]

    def collect(self) -> Iterator[Family]:
        """Yield the figures as they are now."""
        yield Family(INFO, (Reading((pymq.__version__,), 1),))
        yield Family(
            ANSWERS, [Reading((str(status),), count) for status, count in sorted(self.counted.answers.items())]
        )
        yield single(SESSIONS, len(self.sessions))
        yield single(FAILURES, self.log_ins.failure_count)
        yield single(CLIENTS, len(self.clusters))
        yield single(QUESTIONS, self.clusters.question_count)
        yield single(KEPT, self.clusters.room.held_bytes)
        yield single(STREAMS, len(self.streams))
        yield single(REFUSED_STREAMS, self.streams.refused_count)
