"""What a load reports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Messages moved in a time, by successful answers only."""

    messages: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from just before a send to the message's arrival in a waiting pull."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    messages: int
