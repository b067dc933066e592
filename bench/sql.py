"""SQL load: pulls a backlog of messages with three properties; an SQL92 expression matches one in 100."""

from bench.filtered import FilteredBatch, FilteredLoad
from pymq.model.record import encode_batch_entry

BODY_BYTES = 128
BATCH = 100  # one message for each amount from 0 to 99
EXPRESSION = "amount >= 98 AND color = 'red'"
MATCHES_PER_BATCH = 1


def batch_of_amounts() -> bytes:
    """Returns the body of one batch send."""
    entries = []
    for amount in range(BATCH):
        color = ("blue", "red")[amount % 2]
        properties = f"amount\x01{amount}\x02color\x01{color}\x02country\x01DE\x02".encode()
        entries.append(encode_batch_entry(b"x" * BODY_BYTES, properties))
    return b"".join(entries)


def sql_load(address: str, topic: str, queues: int, group: str) -> FilteredLoad:
    """Returns the load on the broker at ``address``."""
    return FilteredLoad(
        address, topic, queues, group, FilteredBatch(batch_of_amounts(), BATCH, MATCHES_PER_BATCH, sql=EXPRESSION)
    )
