"""The end of a log: which bytes of it two brokers compare, and where its last segment starts."""

# Of the log's end, compared byte for byte (by digest). Less when the last segment holds less.
TAIL_BYTES_MAX = 64 * 1024


def last_segment_start(log_start: int, log_end: int, segment_size_bytes: int) -> int:
    """Where a new slave begins unless it wants everything. Java: DefaultHAConnection, for a slave that reports 0."""
    return max(log_end - log_end % segment_size_bytes, log_start)


def tail_size(log_start: int, log_end: int, segment_size_bytes: int) -> int:
    """How many bytes of a log's end are compared: never across a segment's start, so that a master has all or none."""
    if log_end == log_start:
        return 0
    segment_start = (log_end - 1) // segment_size_bytes * segment_size_bytes
    return min(TAIL_BYTES_MAX, log_end - max(segment_start, log_start))
