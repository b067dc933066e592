"""Open transactions by topic, how transactions end, and how often open transactions were checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pymq.broker.assembly.parts import BrokerParts
from pymq.metrics.family import Family, Metric, Reading, bounded, counter, gauge, single

HALF_MESSAGES = gauge("rocketmq_half_messages", "Open transactions; a slave reports none.", "topic")
COMMITS = counter("rocketmq_commit_messages_total", "Committed transactions.", "topic")
ROLLBACKS = counter("rocketmq_rollback_messages_total", "Transactions that were rolled back.", "topic")
CHECKS = counter("pymq_transaction_checks_total", "Questions to producers about open transactions.")
DISCARDED = counter("pymq_transactions_discarded_total", "Messages that went to TRANS_CHECK_MAX_TIME_TOPIC.")
UNREADABLE = counter("pymq_transaction_records_unreadable_total", "Half messages and op records that can't be read.")


class TransactionMetrics:
    """The figures of transactions."""

    metrics = (HALF_MESSAGES, COMMITS, ROLLBACKS, CHECKS, DISCARDED, UNREADABLE)

    def __init__(self, parts: BrokerParts) -> None:
        self._config = parts.config
        self._transactions = parts.messages.transactions
        self._checks = parts.messages.transaction_checks

    def collect(self) -> Iterator[Family]:
        transactions = self._transactions
        yield self._by_topic(HALF_MESSAGES, transactions.halves.count_by_topic)
        yield self._by_topic(COMMITS, transactions.committed_count)
        yield self._by_topic(ROLLBACKS, transactions.rolled_back_count)
        yield single(CHECKS, self._checks.check_count)
        yield single(DISCARDED, transactions.discarded_count)
        yield single(UNREADABLE, transactions.unreadable_count)

    def _by_topic(self, metric: Metric, counts: Mapping[str, int]) -> Family:
        shown, left_out = bounded(counts.items(), self._config.metrics_series_max)
        return Family(metric, [Reading((topic,), count) for topic, count in shown], left_out)
