"""Join tokens: negative numbers, each valid once and for a limited time, and limited in number."""

import random

from pymq.broker.replication.master.join_tokens import JOIN_TOKENS_MAX, JoinedSlave, JoinTokens
from pymq.wire.ha import OFFSET_MAX

LIFETIME_MS = 1000


def test_a_token_gives_what_it_was_made_for_once() -> None:
    join_tokens = JoinTokens(random.Random(1), LIFETIME_MS)
    token = join_tokens.give(JoinedSlave(1, "h:1", 70), 0)
    assert -OFFSET_MAX <= token < 0
    assert join_tokens.take(token, LIFETIME_MS - 1) == JoinedSlave(1, "h:1", 70)
    assert join_tokens.take(token, LIFETIME_MS - 1) is None


def test_a_token_grows_old() -> None:
    join_tokens = JoinTokens(random.Random(1), LIFETIME_MS)
    token = join_tokens.give(JoinedSlave(1, "h:1", 70), 0)
    assert join_tokens.take(token, LIFETIME_MS) is None


def test_a_slave_has_one_token() -> None:
    join_tokens = JoinTokens(random.Random(1), LIFETIME_MS)
    first = join_tokens.give(JoinedSlave(1, "h:1", 70), 0)
    second = join_tokens.give(JoinedSlave(1, "h:1", 80), 0)
    assert join_tokens.take(first, 0) is None
    assert join_tokens.take(second, 0) == JoinedSlave(1, "h:1", 80)


def test_the_oldest_goes_when_there_are_too_many() -> None:
    join_tokens = JoinTokens(random.Random(1), LIFETIME_MS)
    tokens = [join_tokens.give(JoinedSlave(number, f"h:{number}", 0), 0) for number in range(1, JOIN_TOKENS_MAX + 2)]
    assert join_tokens.take(tokens[0], 0) is None
    assert join_tokens.take(tokens[1], 0) is not None
    assert join_tokens.take(tokens[-1], 0) is not None


def test_one_address_has_one_token_under_whichever_ids() -> None:
    join_tokens = JoinTokens(random.Random(1), LIFETIME_MS)
    other = join_tokens.give(JoinedSlave(1, "h:1", 0), 0)
    tokens = [join_tokens.give(JoinedSlave(number, "h:2", 0), 0) for number in range(2, JOIN_TOKENS_MAX + 2)]
    assert [join_tokens.take(token, 0) for token in tokens[:-1]] == [None] * (JOIN_TOKENS_MAX - 1)
    assert join_tokens.take(tokens[-1], 0) is not None and join_tokens.take(other, 0) is not None
