"""The options of ``df.write.format("pymq")`` and of its stream: one table of names, and the parsed options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pymq.client.outgoing import BODY_SIZE_MAX_BYTES
from pymq.errors import UsageError
from pymq.model.names import check_group, check_topic
from pymq.spark.named_options import NamedOptions, Option, OptionTable
from pymq.spark.settings import RETRY_BUDGET_S

GROUP = "PYMQ_SPARK"


OPTIONS = (
    Option("namesrv"),
    Option("credentials"),
    Option("topic"),
    Option("path", is_internal=True),
    Option("group"),
    Option("writeId"),
    Option("copyProperties"),
    Option("maxBodyBytes"),
    Option("deadLetterPath"),
    Option("maxRowsPerSecondPerTask"),
    Option("retryBudgetSeconds"),
    Option("checkpointLocation", is_internal=True),
    Option("queryName", is_internal=True),
    Option("receipt", is_internal=True),
    Option("progress", is_internal=True),
)
_NAMESRV = "write namesrv, the addresses of the name servers as host:port;host:port"
_EQUIVALENTS = {
    "kafka.bootstrap.servers": _NAMESRV,
    "bootstrap.servers": _NAMESRV,
    "nameserver": _NAMESRV,
    "nameserveraddr": _NAMESRV,
    "includeheaders": "leave it out: a column headers is written",
    "subscribe": "write topic",
    "topics": "write topic, or give each row its topic in a column",
    "kafka.client.id": "write group",
    "kafka.acks": "leave it out: a row is written when its broker has stored it as its settings say",
    "kafka.enable.idempotence": "leave it out: rows that are sent again have the same message id",
    "kafka.transactional.id": "write writeId, and read with dropDuplicates",
    "kafka.max.request.size": "write maxBodyBytes",
}
OPTION_TABLE = OptionTable(OPTIONS, _EQUIVALENTS)
known_names = OPTION_TABLE.known_names


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """What the tasks of a write need to know."""

    namesrv: str
    credentials: str
    group: str
    topic: str
    copies_properties: bool
    body_size_max_bytes: int
    dead_letters: str
    rows_per_s_max: int
    retry_budget_s: float
    progress: str


class WriteOptions(NamedOptions):
    """Options as given, by their names in any case. Every method raises UsageError for an illegal value."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raise UsageError for an unknown option."""
        super().__init__(given, OPTION_TABLE)

    def settings(self) -> WriteSettings:
        """Return the settings of the tasks."""
        topic, path = self.text("topic"), self.text("path")
        if topic and path:
            raise UsageError(f"the topic is given twice, as {topic!r} and {path!r}: give one")
        topic = topic or path
        return WriteSettings(
            namesrv=self.namesrv,
            credentials=self.credentials,
            group=check_group(self.text("group", GROUP)),
            topic=check_topic(topic) if topic else "",
            copies_properties=self._flag("copyProperties"),
            body_size_max_bytes=self.number("maxBodyBytes", BODY_SIZE_MAX_BYTES),
            dead_letters=self.text("deadLetterPath"),
            rows_per_s_max=self.number("maxRowsPerSecondPerTask", 0),
            retry_budget_s=self._parsed("retryBudgetSeconds", RETRY_BUDGET_S, float, "seconds, such as 60"),
            progress=self.text("progress"),
        )
