"""Dead letters that are sent again, chosen ones or by filter, a bounded step at a time; and all of a group deleted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from pymq.client import MessageQueue, Producer, StoredMessage
from pymq.client.admin import Admin
from pymq.console.asking.cluster import Cluster
from pymq.console.changes.fields import Field, Input, form_page
from pymq.console.changes.plan import Outcome, Plan, Prepare, WithMessages
from pymq.console.changes.replanned import Records, replanned
from pymq.console.changes.sending import Identity, identity_of
from pymq.console.messages.dead_letters import wanted_of
from pymq.console.messages.filters import TIME_LENGTH_MAX, Filters
from pymq.console.messages.positions import POSITION_LENGTH_MAX, decode_position, encode_position
from pymq.console.messages.rows import shortened
from pymq.console.messages.scan import FOUND_MAX
from pymq.console.pages.links import dead_letters_path, message_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import ConflictError, NotFoundError, PymqError, RefusedError, UsageError
from pymq.model.names import check_group, dlq_topic
from pymq.operations import dead_letters as work
from pymq.operations.dead_letters import TIME_MAX_MS, Wanted
from pymq.operations.message.forward import Step, step_forward
from pymq.operations.message.lookup import find_at, parse_place, place_id
from pymq.operations.message.search import Limits, QueueParts, Range, ranges_of
from pymq.operations.pace import Pace

STEP_MAX: Final = 100  # letters that one plan sends
SCANNED_MAX: Final = 50_000  # letters that one plan looks at
SCAN_TIME_MAX_MS: Final = 3_000
# A page has 10 s: letters begin to be sent in the first of these times, and their answers come within the second.
BEGIN_TIME_MAX_MS: Final = 4_000
END_TIME_MAX_MS: Final = 9_000
CHECK_TIMEOUT_S: Final = 2.0
AT_ONCE: Final = 8
BYTES_AT_ONCE: Final = 4 * 1024 * 1024  # or one larger letter
RATE_MAX: Final = 1_000
PLACE_LENGTH_MAX: Final = 300

GROUP, TOPICS = "the group alone", "their topics, for all groups"
_NOTE: Final = "They keep their ids, and stay among the dead letters: one that is sent twice is handled twice."
_NO_ANSWER: Final = "no answer in time: it may have been sent"
_GONE: Final = "dead letters of the plan were deleted since it was made: nothing is sent"
_ANOTHER: Final = "another message is at its place now: the dead letters were deleted since the plan was made"
_GOALS: Final = (
    Column("goal", "To topic"),
    Column("origin", "From topic"),
    Column("letters", "Dead letters", Kind.number),
)
_PLANNED: Final = (
    Column("message_id", "Id", Kind.link, path=lambda row: message_path(row["topic"], row["place"])),
    Column("origin_topic", "From topic", why_unknown="no property says it"),
    Column("goal", "To topic", why_unknown="it can't be sent again"),
    Column("problem", "Problem", why_unknown="none"),
)
_SENT: Final = (*_PLANNED[:2], Column("result", "Result"), Column("problem", "Problem", why_unknown="none"))
_PURGED: Final = (
    Column("topic", "Topic"),
    Column("messages", "Dead letters", Kind.number),
    Column("brokers", "Brokers", Kind.names),
    Column("left", "Left", Kind.number, "known afterwards"),
)


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter of a plan, with its stored size. ``problem``: why it can't be sent again, "" if it can."""

    queue: MessageQueue
    offset: int
    message_id: str
    identity: Identity | None
    origin: str
    goal: str
    problem: str = ""
    size_bytes: int = 0

    @property
    def place(self) -> str:
        """The place of the letter, which serves as an id."""
        return place_id(self.queue.broker_name, self.queue.queue_id, self.offset)

    def row(self) -> dict[str, Any]:
        """Return the letter as plain values."""
        return {
            "message_id": self.message_id,
            "topic": self.queue.topic,
            "place": self.place,
            "origin_topic": self.origin or None,
            "goal": self.goal or None,
            "problem": self.problem or None,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """What a form asks for. ``chosen``: places, in their order; without them ``wanted`` says which letters are meant.

    ``at``, ``until``: where a step begins in each queue, and where all steps end; None in the first one.
    """

    wanted: Wanted
    chosen: tuple[tuple[MessageQueue, int], ...]
    at: dict[MessageQueue, int] | None
    until: dict[MessageQueue, int] | None
    to_topic: bool
    rate_per_s: int | None
    count_max: int

    @property
    def topic(self) -> str:
        """The topic of the group's dead letters."""
        return dlq_topic(self.wanted.group)


async def form(visit: Visit) -> Page:
    """Return the form that sends dead letters again: letters of the address, or letters by conditions."""
    group, given = check_group(visit.path["group"]), visit.parameters
    asked = _read(group, given, visit.clock.now_ms())
    rate = "" if asked.rate_per_s is None else str(asked.rate_per_s)
    common = [
        Field("target", "To", Input.choice, TOPICS if asked.to_topic else GROUP, choices=(GROUP, TOPICS)),
        Field("rate", "Letters a second", Input.number, rate, hint="as many as brokers take"),
    ]
    title, command = f"Send dead letters of {group} again", ("dlq", "resend", group)
    if asked.chosen:
        chosen = [Field("chosen", "", Input.hidden, _place(*place)) for place in asked.chosen]
        return form_page(title, [*chosen, *common], command, f"Chosen dead letters: {len(asked.chosen)}.")
    hidden = [
        Field(name, "", Input.hidden, text)
        for name in ("at", "until")
        if (text := given.text(name, "", length_max=POSITION_LENGTH_MAX))
    ]
    fields = [
        *hidden,
        Field("origin", "From topic", value=given.text("origin", ""), hint="any"),
        Field("id", "Id", value=given.text("id", ""), hint="any"),
        Field(
            "from", "Died at or after", value=given.text("from", ""), hint="any time; -1h", length_max=TIME_LENGTH_MAX
        ),
        Field(
            "to",
            "Died before",
            value=given.text("to", ""),
            hint="any time; 2026-01-31T12:00",
            length_max=TIME_LENGTH_MAX,
        ),
        Field("count", "At most", Input.number, str(asked.count_max), hint=str(STEP_MAX)),
        *common,
    ]
    note = f"Without conditions all are meant, the oldest first. One step sends at most {STEP_MAX}; then you go on."
    return form_page(title, fields, command, note)


def prepare(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a step that sends dead letters again. Raises BadRequest."""
    group = visit.path["group"]
    try:
        check_group(group)
    except UsageError as error:
        raise BadRequest("group", str(error)) from None
    asked = _read(group, given, visit.clock.now_ms())

    async def plan(admin: Admin) -> Plan:
        goals = await work.find_goals(admin, group, to_topic=asked.to_topic)
        if asked.chosen:
            letters, step = await _look(visit.cluster, asked, goals), None
        else:
            step = await _scan(visit, admin, asked, goals)
            letters = step.rows
        return _plan(visit, asked, goals, letters, step)

    return plan


def _read(group: str, given: Parameters, now_ms: int) -> Asked:
    topic = dlq_topic(group)
    chosen = []
    for text in dict.fromkeys(given.all("chosen", count_max=FOUND_MAX)):
        place = parse_place(topic, text) if len(text) <= PLACE_LENGTH_MAX else None
        if place is None:
            raise BadRequest("chosen", "it is no place of a message: choose it on the page of dead letters")
        chosen.append(place)
    positions = {name: given.text(name, "", length_max=POSITION_LENGTH_MAX) for name in ("at", "until")}
    known = {name: decode_position(name, topic, text) if text else None for name, text in positions.items()}
    rate = given.number("rate", minimum=1, maximum=RATE_MAX) if given.text("rate", "").strip() else None
    count = given.number("count", minimum=1, maximum=STEP_MAX) if given.text("count", "").strip() else STEP_MAX
    return Asked(
        wanted_of(group, given, now_ms),
        tuple(chosen),
        known["at"],
        known["until"],
        to_topic=given.choice("target", GROUP, (GROUP, TOPICS)) == TOPICS,
        rate_per_s=rate,
        count_max=count if rate is None else min(count, max(1, rate * BEGIN_TIME_MAX_MS // 1000)),
    )


async def _look(cluster: Cluster, asked: Asked, goals: work.Goals) -> list[Letter]:
    """Return the chosen letters. One that can't be read has the reason, and hides no other."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def look(queue: MessageQueue, offset: int) -> Letter:
        async with gate:
            try:
                return _letter(await find_at(cluster.reader.pull, queue, offset), goals)
            except PymqError as error:
                return Letter(queue, offset, _place(queue, offset), None, "", "", str(error))

    return list(await asyncio.gather(*(look(queue, offset) for queue, offset in asked.chosen)))


async def _scan(visit: Visit, admin: Admin, asked: Asked, goals: work.Goals) -> Step[Letter]:
    """Return the next letters that match. Raises NotFoundError for a group without dead letters."""
    wanted = asked.wanted
    begin_ms, end_ms = wanted.begin_ms or None, None if wanted.end_ms == TIME_MAX_MS else wanted.end_ms
    try:
        ranges = await ranges_of(admin, asked.topic, begin_ms, end_ms)
    except NotFoundError as error:
        raise NotFoundError(f"group {wanted.group!r} has no dead letters: there is no topic {asked.topic}") from error
    if asked.at is not None or asked.until is not None:
        ranges = {queue: _within(queue, each, asked) for queue, each in ranges.items()}
    selection, _ = Filters.none().selection()
    parts = QueueParts(visit.cluster.reader.pull, selection, lambda message: _letter(message, goals), wanted.takes)
    return await step_forward(parts, visit.clock, Limits(asked.count_max, SCANNED_MAX, SCAN_TIME_MAX_MS), ranges)


def _within(queue: MessageQueue, whole: Range, asked: Asked) -> Range:
    """Return what is left of a queue; nothing of one that was not there at the first step."""
    end = whole.end if asked.until is None else min(whole.end, asked.until.get(queue, whole.first))
    first = whole.first if asked.at is None else max(whole.first, asked.at.get(queue, whole.first))
    return Range(first, max(first, end))


def _letter(message: StoredMessage, goals: work.Goals) -> Letter:
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    origin = shortened(work.origin_topic(message))
    goal = problem = ""
    try:
        goal = shortened(goals.of(message))
    except RefusedError as error:
        problem = str(error)
    identity = identity_of(message)._replace(message_id="")  # that may be long; the others are enough
    message_id = shortened(message.message_id)
    return Letter(queue, message.queue_offset, message_id, identity, origin, goal, problem, message.size_bytes)


def _plan(visit: Visit, asked: Asked, goals: work.Goals, letters: list[Letter], step: Step[Letter] | None) -> Plan:
    group = asked.wanted.group
    counts = Counter((letter.goal, letter.origin) for letter in letters if not letter.problem)
    rows = [{"goal": goal, "origin": origin, "letters": count} for (goal, origin), count in sorted(counts.items())]
    scanned = {} if step is None else {"scanned": step.scanned, "not_looked_at": step.left}
    failed = {} if step is None else {queue.broker_name: why for queue, why in step.failed.items()}
    record: dict[str, Any] = {
        "group": group,
        "to": "topic" if asked.to_topic else "group",
        "found": len(letters),
        "origins": dict(Counter(letter.origin or "?" for letter in letters)),
        "rate": asked.rate_per_s,
        "letters": [{"message_id": letter.message_id, "place": letter.place} for letter in letters],
        **scanned,
    }

    clock = visit.clock  # a plan waits for minutes, and holds no visit

    async def apply(cluster: Cluster, admin: Admin) -> Outcome:
        resending = _Resending(cluster, clock.monotonic_ms, asked, goals)
        await resending.refuse_conflicts(admin, letters)
        results = await resending.send(letters)
        return _outcome(asked, letters, results, step)

    return Plan(
        f"Send dead letters of {group} again",
        "dlq resend",
        f"group {group}",
        [
            Table("To", _GOALS, rows, "No dead letter would be sent."),
            Table(
                f"Dead letters: {len(letters):,}", _PLANNED, [letter.row() for letter in letters], "None matches here."
            ),
        ],
        record,
        _command(asked, letters),
        WithMessages(apply),
        tuple(_notes(asked, letters, step, failed)),
    )


def _notes(asked: Asked, letters: Sequence[Letter], step: Step[Letter] | None, failed: Mapping[str, str]) -> list[str]:
    notes = [_NOTE]
    if asked.rate_per_s is not None:
        notes.append(f"At most {asked.rate_per_s:,} are sent a second.")
    if unsendable := sum(bool(letter.problem) for letter in letters):
        notes.append(f"{unsendable:,} can't be sent again, each with the reason below; the others can.")
    if step is not None and step.left:
        notes.append(
            f"{step.scanned:,} dead letters were looked at, {step.left:,} were not: this is one step; go on after it"
        )
    return notes + [f"{broker} can't be read: {why}" for broker, why in sorted(failed.items())]


class _Resending:
    """Sends the letters of one plan, within the time of a page."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int], asked: Asked, goals: work.Goals) -> None:
        self._cluster = cluster
        self._now_ms = now_ms
        self._asked = asked
        self._goals = goals
        self._begun_ms = now_ms()

    async def refuse_conflicts(self, admin: Admin, letters: Sequence[Letter]) -> None:
        """Raise ConflictError when letters of the plan are no more. A broker that does not say is not waited for."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                ranges = await ranges_of(admin, self._asked.topic, None, None)
        except NotFoundError as error:
            raise ConflictError(f"{_GONE} ({error})") from error
        except (PymqError, TimeoutError):
            return
        for letter in letters:
            there = ranges.get(letter.queue)
            if letter.identity is not None and there is not None and not there.first <= letter.offset < there.end:
                raise ConflictError(_GONE)

    async def send(self, letters: Sequence[Letter]) -> list[str | None]:
        """Return why each letter was not sent: "" for one that was, None for one that the time did not reach."""
        results: list[str | None] = [letter.problem or None for letter in letters]
        sendable = [at for at, letter in enumerate(letters) if not letter.problem]
        rate_per_s = self._asked.rate_per_s
        pace, at_once = Pace(rate_per_s), min(AT_ONCE, rate_per_s or AT_ONCE)
        async with self._cluster.producer() as producer:
            for numbers in _chunks(letters, sendable, at_once):
                await pace.wait(len(numbers))
                if self._is_late():
                    break
                chunk = [letters[at] for at in numbers]
                for at, why in zip(numbers, await self._send_chunk(producer, chunk), strict=True):
                    results[at] = why
        return results

    def _is_late(self) -> bool:
        """Return whether no further letter may begin to be sent."""
        return self._now_ms() - self._begun_ms >= BEGIN_TIME_MAX_MS

    async def _send_chunk(self, producer: Producer, letters: Sequence[Letter]) -> list[str]:
        tasks = [asyncio.ensure_future(self._send_one(producer, letter)) for letter in letters]
        left_s = max(0, self._begun_ms + END_TIME_MAX_MS - self._now_ms()) / 1000
        try:
            await asyncio.wait(tasks, timeout=left_s)
            return [task.result() if task.done() else _NO_ANSWER for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_one(self, producer: Producer, letter: Letter) -> str:
        try:
            found = await find_at(self._cluster.reader.pull, letter.queue, letter.offset)
            if identity_of(found)._replace(message_id="") != letter.identity:
                return _ANOTHER
            await work.resend_one(producer, found, self._goals)
        except PymqError as error:
            return str(error)
        return ""


def _chunks(letters: Sequence[Letter], numbers: Sequence[int], count_max: int) -> Iterator[list[int]]:
    """Yield the numbers of letters that are sent at once: so many, and so many bytes."""
    chunk: list[int] = []
    size_bytes = 0
    for number in numbers:
        more_bytes = letters[number].size_bytes
        if chunk and (len(chunk) == count_max or size_bytes + more_bytes > BYTES_AT_ONCE):
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(number)
        size_bytes += more_bytes
    if chunk:
        yield chunk


def _outcome(
    asked: Asked, letters: Sequence[Letter], results: Sequence[str | None], step: Step[Letter] | None
) -> Outcome:
    said = {"": "sent", None: "not tried"}
    rows = [
        letter.row() | {"result": said.get(why, "failed"), "problem": why or None}
        for letter, why in zip(letters, results, strict=True)
    ]
    counts = Counter(row["result"] for row in rows)
    failed = {f"{row['message_id']} ({row['place']})": row["problem"] for row in rows if row["result"] == "failed"}
    untried = [letter for letter, why in zip(letters, results, strict=True) if why is None]
    if untried:
        failed["not tried"] = f"{len(untried)} letters: one step begins to send within {BEGIN_TIME_MAX_MS // 1000} s"
    record = {
        "sent": counts["sent"],
        "failed": counts["failed"],
        "not_tried": counts["not tried"],
        "letters": [{name: row[name] for name in ("message_id", "result", "problem")} for row in rows],
    }
    table = Table(f"Sent {counts['sent']:,} of {len(rows):,}", _SENT, rows, "No dead letter was sent.")
    return Outcome([table], record, failed, following=_following(asked, untried, step))


def _following(asked: Asked, untried: Sequence[Letter], step: Step[Letter] | None) -> str:
    """Return the address of the form for what is left, "" when nothing is."""
    target = TOPICS if asked.to_topic else GROUP
    given: list[tuple[str, Any]] = [("target", target)]
    given += [("rate", asked.rate_per_s)] if asked.rate_per_s is not None else []
    if step is None:
        if not untried:
            return ""
        given += [("chosen", letter.place) for letter in untried]
        return f"{dead_letters_path(asked.wanted.group)}/resend?{urlencode(given)}"
    if not untried and not step.left:
        return ""
    wanted, at = asked.wanted, dict(step.reached)
    ends = step.ends if asked.until is None else asked.until
    for letter in untried:
        at[letter.queue] = min(at[letter.queue], letter.offset)
    given += [("origin", wanted.origin)] if wanted.origin else []
    given += [("id", each) for each in sorted(wanted.ids)]
    given += [("from", wanted.begin_ms)] if wanted.begin_ms else []
    given += [("to", wanted.end_ms)] if wanted.end_ms != TIME_MAX_MS else []
    given += [("count", asked.count_max), ("at", encode_position(at)), ("until", encode_position(ends))]
    return f"{dead_letters_path(wanted.group)}/resend?{urlencode(given)}"


def _command(asked: Asked, letters: Sequence[Letter]) -> tuple[str, ...]:
    wanted = asked.wanted
    ids = [letter.message_id for letter in letters if letter.identity] if asked.chosen else sorted(wanted.ids)
    words = ["dlq", "resend", wanted.group]
    words += [word for each in ids for word in ("--id", each)]
    words += ["--origin", wanted.origin] if wanted.origin else []
    words += ["--from", str(wanted.begin_ms)] if wanted.begin_ms else []
    words += ["--to", str(wanted.end_ms)] if wanted.end_ms != TIME_MAX_MS else []
    words += [] if asked.chosen else ["--max", str(asked.count_max)]
    return (*words, *(["--to-topic"] if asked.to_topic else []))


def _place(queue: MessageQueue, offset: int) -> str:
    return place_id(queue.broker_name, queue.queue_id, offset)


async def purge_form(visit: Visit) -> Page:
    """Return the form that deletes all dead letters of the group that the address names."""
    group = check_group(visit.path["group"])
    note = "All of them are deleted, with the topic that holds them. The next dead letter makes the topic again."
    return form_page(f"Delete the dead letters of {group}", [], ("dlq", "purge", group), note)


def purge(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the end of a group's dead letters. Letters that come later make it a conflict."""
    group = visit.path["group"]

    async def run(admin: Admin, is_dry: bool) -> Records:
        record = await (work.plan_purge if is_dry else work.purge)(admin, group)
        return [{"left": None, **record}]

    return replanned(
        f"Delete the dead letters of {group}", f"group {group}", ("dlq", "purge", group), _PURGED, run, confirm=group
    )
