"""Sight: what one person sees of the last hour. A cluster says so by what it answers to that person's own request.

Figures are read with the console's own credentials, which may see more than the person.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.console.asking.cluster import SLOW_MS, Cluster, Known
from pymq.console.asking.large import ends_kept_ms, lags_kept_ms
from pymq.console.history.counted import Means
from pymq.console.history.recorder import Recorder, Row
from pymq.console.history.rings import CLUSTER, Kind, Measure, Subject, point_at
from pymq.errors import PymqError, RefusedError, UnreachableError
from pymq.model.names import retry_topic
from pymq.operations.top.broker_tables import Part
from pymq.operations.top.rates import Figures
from pymq.operations.topic.table import Ends

ALLOWED_MS: Final = 30_000
OLD_MS: Final = 300_000  # a figure that is older does not tell how it is now
ANSWERS_MAX: Final = 10_000

Question = Callable[[Admin], Coroutine[Any, Any, Any]]


class Permissions:
    """What clusters answered to whom. An answer holds for :data:`ALLOWED_MS`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[tuple[str, str, Subject], tuple[int, str]] = {}  # by person, context, subject

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, person: str, context: str, subject: Subject) -> str | None:
        """Return why the person may not see a subject, empty when allowed; None when that is not known."""
        found = self._answers.get((person, context, subject))
        if found is None or self._clock.monotonic_ms() - found[0] >= ALLOWED_MS:
            return None
        return found[1]

    def note(self, person: str, context: str, subject: Subject, refusal: str = "") -> None:
        """Keep an answer: empty for an allowed request."""
        key = (person, context, subject)
        self._answers.pop(key, None)
        self._answers[key] = self._clock.monotonic_ms(), refusal
        while len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]


class Sight:
    """The last hour of one cluster, for one person."""

    def __init__(
        self,
        recorder: Recorder,
        permissions: Permissions,
        cluster: Cluster,
        clock: Clock,
        *,
        person: str = "",
        context: str = "",
    ) -> None:
        """``person``: the key of the session, empty without one."""
        self._recorder = recorder
        self._permissions = permissions
        self._cluster = cluster
        self._clock = clock
        self._person = person
        self._context = context

    @property
    def problem(self) -> str:
        """Why there are no new figures, with what to do; empty while there are."""
        return f"{self._recorder.problem}. {self._recorder.advice}" if self._recorder.problem else ""

    @property
    def left_out(self) -> int:
        """The number of topics and groups whose figures are not kept, because the rings are full."""
        return self._recorder.left_out

    def age_ms(self, part: Part) -> int | None:
        """Return how old the newest rows of a part are, None without rows."""
        at_ms = self._recorder.at_ms.get(part)
        return None if at_ms is None else self._clock.monotonic_ms() - at_ms

    def allow(self, subject: Subject) -> None:
        """Note that this person's own request for a subject was answered just now."""
        self._permissions.note(self._person, self._context, _asked_as(subject))

    async def why_not(self, subject: Subject) -> str:
        """Return why this person may not see the figures of a subject; empty when allowed."""
        asked = _asked_as(subject)
        known = self._permissions.find(self._person, self._context, asked)
        if known is not None:
            return known
        try:
            await self._cluster.ask(("may see", asked), _question(asked))
        except RefusedError as error:
            refusal = str(error)
        except PymqError as error:
            return f"whether you may see it is not known: {error}"
        else:
            refusal = ""
        self._permissions.note(self._person, self._context, asked, refusal)
        return refusal

    async def allowed(self, subject: Subject) -> bool:
        """Return whether this person may see the figures of a subject."""
        return not await self.why_not(subject)

    # The caller has asked whether this person may see the subjects. ---------------------------------------------

    def see(self, subject: Subject) -> None:
        """Note that someone looks at a subject: its figures are kept before others."""
        self._recorder.rings.see(subject)

    def watch(self, group: str, topic: str) -> None:
        """Note that someone looks at a group and one of its topics: its lags by topic are kept for a while."""
        self._recorder.watch(group, topic)

    def points(self, subject: Subject, measure: Measure) -> list[float] | None:
        """Return the points of the last hour, the oldest first; None without a series."""
        return self._recorder.rings.points(subject, measure, point_at(self._clock.monotonic_ms()))

    async def counted(self, subject: Subject) -> Means:
        """Return what brokers counted themselves in an hour, for the time before the console's own figures."""
        return await self._recorder.counted(subject)

    def has_room(self, subject: Subject) -> bool:
        """Return whether the subject has series, or would get them."""
        rings = self._recorder.rings
        return subject in rings or rings.count < rings.series_max

    @property
    def topics(self) -> Mapping[str, Figures]:
        """The newest figures of topics by name."""
        return self._recorder.topics

    @property
    def groups(self) -> Mapping[str, Row]:
        """The newest rows of groups by name, as :meth:`pymq.operations.top.rates.Rates.groups` gives them.

        ``at_ms`` is when a row came (monotonic ms).
        """
        return self._recorder.groups

    @property
    def system_topics(self) -> frozenset[str]:
        """The names of the topics that the cluster calls its own."""
        return self._recorder.system_topics

    def ends(self) -> Known | None:
        """Return the newest sampled ends of all topics by broker.

        None without any, where the person's own question is answered soon and costs little, and for a person whose own
        requests are not the console's own: they may see other topics.
        """
        found = self._recorder.ends() if self._asks_as_the_console() else None
        if found is None:
            return None
        ends = Ends(found[1])
        return Known(found[0], ends) if ends_kept_ms(ends) or self._takes_long(Part.ends) else None

    def lags(self) -> Known | None:
        """Return the newest sampled lags of groups without system groups, likewise."""
        found = self._recorder.lags() if self._asks_as_the_console() else None
        if found is None:
            return None
        return Known(*found) if lags_kept_ms(found[1]) or self._takes_long(Part.lags) else None

    def _asks_as_the_console(self) -> bool:
        """Return whether this person's questions are the console's own: nothing signs either."""
        return not self._person and not self._recorder.has_credentials

    def _takes_long(self, part: Part) -> bool:
        return self._recorder.took_ms.get(part, 0) >= SLOW_MS

    def rate(self, subject: Subject) -> float | None:
        """Return what is sent to a topic, or what a group commits, a second.

        None when it is unknown or older than :data:`OLD_MS`.
        """
        if subject.kind is Kind.topic:
            topic = self.topics.get(subject.name)
            found = None if topic is None else (topic.per_second, topic.at_ms)
        else:
            group = self.groups.get(subject.name)
            found = None if group is None else (group["out"], group["at_ms"])
        if found is None or self._clock.monotonic_ms() - found[1] > OLD_MS:
            return None
        return found[0]


def _asked_as(subject: Subject) -> Subject:
    """Return the subject that permissions know: a broker's figures are the cluster's, a pair's the group's."""
    if subject.kind is Kind.pair:
        return Subject(Kind.group, subject.name)
    return CLUSTER if subject.kind in (Kind.broker, Kind.cluster) else subject


def _question(subject: Subject) -> Question:
    """Return the request whose answer has the figures of a subject."""
    if subject.kind is Kind.topic:
        return lambda admin: admin.topics.stats(subject.name)
    if subject.kind is Kind.group:
        # The right is the group's, whatever the topic; this one is the group's own, and its answer is short.
        return lambda admin: admin.groups.lag(subject.name, retry_topic(subject.name))
    return runtime_of_each_cluster


async def runtime_of_each_cluster(admin: Admin) -> None:
    """Ask one master of each cluster. Raises RefusedError when one refuses."""
    missing: dict[str, UnreachableError] = {}
    asked: set[str] = set()
    for master in await admin.cluster.masters():
        if master.cluster in asked:
            continue
        try:
            await admin.brokers.runtime_info(master.address)
        except UnreachableError as error:
            missing[master.cluster] = error
            continue
        asked.add(master.cluster)
    for cluster in missing.keys() - asked:
        raise missing[cluster]
