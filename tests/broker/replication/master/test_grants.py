"""Tokens: negative, good once, for a while, and not too many."""

import random

from pymq.broker.replication.master.grants import GRANTS_MAX, Grant, Grants
from pymq.wire.ha import OFFSET_MAX

LIFETIME_MS = 1000


def test_a_token_gives_what_it_was_made_for_once() -> None:
    grants = Grants(random.Random(1), LIFETIME_MS)
    token = grants.give(Grant(1, "h:1", 70), 0)
    assert -OFFSET_MAX <= token < 0
    assert grants.take(token, LIFETIME_MS - 1) == Grant(1, "h:1", 70)
    assert grants.take(token, LIFETIME_MS - 1) is None


def test_a_token_grows_old() -> None:
    grants = Grants(random.Random(1), LIFETIME_MS)
    token = grants.give(Grant(1, "h:1", 70), 0)
    assert grants.take(token, LIFETIME_MS) is None


def test_a_slave_has_one_token() -> None:
    grants = Grants(random.Random(1), LIFETIME_MS)
    first = grants.give(Grant(1, "h:1", 70), 0)
    second = grants.give(Grant(1, "h:1", 80), 0)
    assert grants.take(first, 0) is None
    assert grants.take(second, 0) == Grant(1, "h:1", 80)


def test_the_oldest_goes_when_there_are_too_many() -> None:
    grants = Grants(random.Random(1), LIFETIME_MS)
    tokens = [grants.give(Grant(number, "h:1", 0), 0) for number in range(1, GRANTS_MAX + 2)]
    assert grants.take(tokens[0], 0) is None
    assert grants.take(tokens[1], 0) is not None
    assert grants.take(tokens[-1], 0) is not None
