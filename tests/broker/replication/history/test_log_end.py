from pymq.broker.replication.history.log_end import TAIL_BYTES_MAX, last_segment_start, tail_size

SEGMENT = 100_000


def test_the_last_segment_may_be_the_oldest_one_or_be_full() -> None:
    assert last_segment_start(200_000, 250_000, SEGMENT) == 200_000
    assert last_segment_start(0, 200_000, SEGMENT) == 200_000
    assert last_segment_start(0, 0, SEGMENT) == 0


def test_the_compared_tail_never_crosses_a_segments_start() -> None:
    assert tail_size(0, 0, SEGMENT) == 0
    assert tail_size(0, 30, SEGMENT) == 30
    assert tail_size(20, 30, SEGMENT) == 10
    assert tail_size(0, SEGMENT, SEGMENT) == TAIL_BYTES_MAX
    assert tail_size(0, SEGMENT + 30, SEGMENT) == 30
