"""The end of a log: which bytes of it two brokers compare, and where its last segment starts."""

# The part of a log's end whose digest is compared; less when the last segment has less.
TAIL_BYTES_MAX = 64 * 1024


def last_segment_start(log_start: int, log_end: int, segment_size_bytes: int) -> int:
    """Return where a new slave without ``--full-sync`` begins. Java: DefaultHAConnection, for a report of 0."""
    return max(log_end - log_end % segment_size_bytes, log_start)


def tail_size(log_start: int, log_end: int, segment_size_bytes: int) -> int:
    """Return how many bytes of a log's end to compare. They are in one segment: a master has all of them or none."""
    if log_end == log_start:
        return 0
    segment_start = (log_end - 1) // segment_size_bytes * segment_size_bytes
    return min(TAIL_BYTES_MAX, log_end - max(segment_start, log_start))
