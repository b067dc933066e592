"""The results of a load."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of messages, by successful answers only, and the time they took."""

    messages: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from before a send to the message's arrival in a waiting pull."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    messages: int
