"""A person sees the figures of what that person's own request may see."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pymq.client.admin import BrokerTarget
from pymq.client.admin.rows import Rows
from pymq.clock import ManualClock
from pymq.console.asking.cluster import KEPT_MS, SLOW_MS
from pymq.console.asking.large import PAIRS_MANY, TOPICS_MANY
from pymq.console.history import sight as module
from pymq.console.history.rings import CLUSTER, Kind, Measure, Subject
from pymq.console.history.sight import ALLOWED_MS, Permissions
from pymq.errors import NotFoundError, RefusedError, UnreachableError
from pymq.operations.top.broker_tables import Part
from pymq.wire.bodies_rows import GroupLag, TopicEnds
from tests.console.history.worlds import Seen, run

TOPIC, GROUP, BROKER = Subject(Kind.topic, "orders"), Subject(Kind.group, "billing"), Subject(Kind.broker, "h:2")
REFUSAL = RefusedError(16, "User:reader has no permission to access Topic:orders")


def test_an_answer_holds_for_a_while_for_one_person_and_subject() -> None:
    seen = Seen()
    assert run(seen.sight.allowed(TOPIC))
    seen.clock.advance(ALLOWED_MS - 1)
    assert run(seen.sight.allowed(TOPIC))
    assert seen.admin.asked == ["orders"]
    assert run(seen.sight.allowed(GROUP)) and run(seen.sight_of("other").allowed(TOPIC))
    assert seen.admin.asked == ["orders", "billing", "orders"]
    seen.clock.advance(1)
    assert run(seen.sight.allowed(TOPIC))
    assert seen.admin.asked == ["orders", "billing", "orders", "orders"]


def test_a_refusal_holds_as_long_and_says_why() -> None:
    seen = Seen()
    seen.admin.errors["orders"] = REFUSAL
    assert "no permission to access Topic:orders" in run(seen.sight.why_not(TOPIC))
    del seen.admin.errors["orders"]
    seen.clock.advance(ALLOWED_MS - 1)
    assert not run(seen.sight.allowed(TOPIC))
    seen.clock.advance(1)
    assert run(seen.sight.allowed(TOPIC))


@pytest.mark.parametrize("error", [UnreachableError("no answer"), NotFoundError("no topic 'orders'")])
def test_without_an_answer_nothing_is_shown_and_the_next_time_it_is_asked_again(error: Exception) -> None:
    seen = Seen()
    seen.admin.errors["orders"] = error
    assert str(error) in run(seen.sight.why_not(TOPIC))
    del seen.admin.errors["orders"]
    seen.clock.advance(KEPT_MS)
    assert run(seen.sight.allowed(TOPIC))


def test_the_request_of_a_page_is_not_made_twice() -> None:
    seen = Seen()
    seen.sight.allow(TOPIC)
    assert run(seen.sight.allowed(TOPIC)) and not seen.admin.asked


def test_a_broker_and_the_whole_are_one_right_on_each_cluster() -> None:
    seen = Seen()
    seen.admin.targets.append(BrokerTarget("c", "west", "h:3"))
    seen.admin.errors["h:1"] = UnreachableError("no answer")
    assert run(seen.sight.allowed(BROKER)) and run(seen.sight.allowed(CLUSTER))
    assert seen.admin.asked == ["h:1", "h:2", "h:3"]
    refused = seen.sight_of("other")
    seen.admin.errors["h:3"] = REFUSAL
    assert not run(refused.allowed(CLUSTER))


def test_a_cluster_of_which_no_master_answers_is_not_shown() -> None:
    seen = Seen()
    seen.admin.errors = {"h:1": UnreachableError("no answer"), "h:2": UnreachableError("no answer")}
    assert "no answer" in run(seen.sight.why_not(CLUSTER))


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWERS_MAX", 2)
    permissions = Permissions(ManualClock())
    for name in "abc":
        permissions.note("reader", "prod", Subject(Kind.topic, name))
    assert len(permissions) == 2
    assert permissions.find("reader", "prod", Subject(Kind.topic, "a")) is None
    assert permissions.find("reader", "prod", Subject(Kind.topic, "c")) == ""
    assert permissions.find("reader", "test", Subject(Kind.topic, "c")) is None


def test_figures_have_their_age_and_a_problem_its_advice() -> None:
    seen = Seen()
    assert seen.sight.age_ms(Part.ends) is None
    seen.recorder.at_ms[Part.ends] = seen.clock.monotonic_ms() - 8_000
    seen.recorder.problem, seen.recorder.advice = "refused", "Grant it."
    assert seen.sight.age_ms(Part.ends) == 8_000
    assert seen.sight.problem == "refused. Grant it."


def test_a_subject_has_room_while_there_is_some() -> None:
    seen = Seen(series_max=1)
    assert seen.sight.has_room(TOPIC)
    seen.put(TOPIC, Measure.in_rate, 1.0)
    assert seen.sight.has_room(TOPIC) and not seen.sight.has_room(GROUP)


class Sampled(Seen):
    """A recorder that has sampled ends and lags."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder.took_ms = {Part.ends: SLOW_MS, Part.lags: SLOW_MS}
        rows = Rows({"billing": GroupLag(topics=1, lag=5)})
        self.ends: dict[str, Mapping[str, TopicEnds]] = {"a": {"orders": TopicEnds(stored=3)}}
        self.recorder._sampler = cast(Any, SimpleNamespace(ends=lambda: (7, self.ends), lags=lambda: (8, rows)))


def test_samples_stand_for_the_questions_of_whoever_asks_as_the_console_does() -> None:
    seen = Sampled()
    nobody = seen.sight_of("")
    ends, lags = nobody.ends(), nobody.lags()
    assert ends is not None and ends.at_ms == 7 and ends.answer.by_broker == seen.ends
    assert lags is not None and lags.at_ms == 8 and lags.answer["billing"].lag == 5


def test_samples_do_not_stand_for_the_questions_of_others() -> None:
    seen = Sampled()
    assert seen.sight_of("reader").ends() is None and seen.sight_of("reader").lags() is None
    seen.recorder.has_credentials = True
    assert seen.sight_of("").ends() is None and seen.sight_of("").lags() is None


def test_questions_that_are_answered_soon_are_asked() -> None:
    seen = Sampled()
    seen.recorder.took_ms = {Part.ends: SLOW_MS - 1, Part.lags: SLOW_MS}
    assert seen.sight_of("").ends() is None and seen.sight_of("").lags() is not None
    seen.recorder.took_ms = {Part.ends: SLOW_MS}
    assert seen.sight_of("").ends() is not None and seen.sight_of("").lags() is None


def test_large_answers_that_come_soon_are_taken_from_samples() -> None:
    seen = Sampled()
    seen.recorder.took_ms = {}
    rows = Rows({"billing": GroupLag(topics=PAIRS_MANY)})
    ends = {"a": {f"t{number}": TopicEnds() for number in range(TOPICS_MANY)}}
    seen.recorder._sampler = cast(Any, SimpleNamespace(ends=lambda: (7, ends), lags=lambda: (8, rows)))
    assert seen.sight_of("").ends() is not None and seen.sight_of("").lags() is not None
    assert seen.sight_of("reader").ends() is None and seen.sight_of("reader").lags() is None


def test_without_a_sample_nothing_is_known() -> None:
    assert Seen().sight_of("").ends() is None and Seen().sight_of("").lags() is None


def test_a_pair_is_seen_by_who_may_see_the_group() -> None:
    seen = Seen()
    pair = Subject(Kind.pair, "billing", "orders")
    assert run(seen.sight.allowed(pair)) and seen.admin.asked == ["billing"]
    other = Seen()
    other.admin.errors["billing"] = REFUSAL
    assert not run(other.sight.allowed(pair))
