"""The log of an export's directory, for readers: which offsets it holds, and where their files are. Takes no lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from pymq.errors import UsageError
from pymq.spark.lake.commit_files import Entry, read_entries
from pymq.spark.lake.commits import FOLDER, earlier_settings
from pymq.spark.lake.parquet_parts import safe_name
from pymq.spark.places.places import Place
from pymq.spark.planning.identity import Mark, latest_generations
from pymq.spark.planning.ranges import QueueKey
from pymq.spark.records.schema import check_columns

_TOPIC_LEVEL = "topic="
_PLACE = ("brokerName", "queueId", "queueOffset")


class Span(NamedTuple):
    """Offsets [from_offset, to_offset) of a queue."""

    from_offset: int
    to_offset: int


class LakeFile(NamedTuple):
    """A committed file: its place, and where it is until the exporter has moved it there."""

    path: Place
    staged: Place

    def may_hold(self, part: tuple[str, int, int, int]) -> bool:
        """Return whether rows of (broker, queue id, from, to) can be in it; the name of a merged file tells nothing.

        A broker's name may hold any number of dashes.
        """
        fields = self.path.stem.rsplit("-", 3)
        if self.path.name.startswith("compacted-") or len(fields) < 4:
            return True
        broker, queue_id, first, last = part
        own = fields[0] == safe_name(broker) and int(fields[1]) == queue_id
        return own and int(fields[2]) < last and int(fields[3]) > first


class Lake:
    """One state of the log of a lake: the output of an export of all messages, by topic.

    Of a topic that was made again it shows the latest generation.
    """

    def __init__(self, root: Place) -> None:
        """Raise UsageError for a directory that can't be read as the history of its topics."""
        self.root = root
        self.columns = self._checked_columns()
        self._spans: dict[QueueKey, list[Span]] = {}
        self._marks: dict[QueueKey, Mark] = {}
        self._files: dict[str, dict[str, LakeFile]] = {}
        for entry in read_entries(root / FOLDER / "commits"):
            self._note(entry)
        self._latest = latest_generations(self._spans)

    def topics(self) -> list[str]:
        """Return the names of all topics with committed offsets, sorted."""
        return sorted({topic for topic, _, _ in self._latest})

    def queues_of(self, topic: str) -> list[QueueKey]:
        """Return the queues of a topic, sorted."""
        return sorted(queue for queue in self._latest if queue[0] == topic)

    def spans(self, queue: QueueKey) -> list[Span]:
        """Return the committed offsets of a queue in order; spans don't touch each other."""
        return joined(self._spans.get(self._latest.get(queue, queue), ()))

    def mark(self, queue: QueueKey) -> Mark | None:
        """Return the latest mark of a queue, by which a topic that was made again is noticed."""
        return self._marks.get(self._latest.get(queue, queue))

    def files_of(self, queue: QueueKey, span: Span) -> list[LakeFile]:
        """Return the files that may hold rows of these offsets."""
        files = self._files.get(self._latest.get(queue, queue)[0], {}).values()
        return [file for file in files if file.may_hold((*queue[1:], *span))]

    def _checked_columns(self) -> tuple[str, ...]:
        root = self.root
        settings = earlier_settings(root)
        if not settings:
            raise UsageError(f"{root} is no lake with a commit: name the output of pymq spark-export")
        levels = settings.get("partition_by", ())
        if "topic" not in levels:
            raise UsageError(f"{root} has no directories by topic: export with topic in --partition-by")
        if settings.get("tag", "*") != "*" or "sql" in settings or "filter" in settings:
            raise UsageError(
                f"{root} holds selected messages only: an archive is an export without tag, SQL and filter"
            )
        if str(settings.get("body", "")).startswith("json"):
            raise UsageError(f"{root} holds fields in place of bodies: an archive is an export without --body json")
        columns = check_columns(settings.get("columns", ()))
        if missing := [name for name in _PLACE if name not in columns]:
            raise UsageError(f"{root} lacks the column {missing[0]}: an archive needs {', '.join(_PLACE)}")
        return columns

    def _note(self, entry: Entry) -> None:
        for part in entry["ranges"]:
            queue = part["topic"], part["broker_name"], part["queue_id"]
            self._spans.setdefault(queue, []).append(Span(part["from_offset"], part["to_offset"]))
        for fields in entry.get("marks", ()):
            mark = Mark(**fields)
            self._marks[mark.key] = mark
        for file in entry["files"]:
            self._add(file["path"], file.get("staged", file["path"]))
        if "replacement" in entry:
            self._replace(entry["replacement"])

    def _replace(self, fields: dict[str, Any]) -> None:
        directory = fields["directory"]
        files = self._files.setdefault(_topic_of(directory), {})
        for name in fields["removed"]:
            files.pop(f"{directory}/{name}", None)
        for file in fields["added"]:
            self._add(f"{directory}/{file['name']}", f"{fields['staged']}/{file['name']}")

    def _add(self, path: str, staged: str) -> None:
        self._files.setdefault(_topic_of(path), {})[path] = LakeFile(self.root / path, self.root / staged)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return the same offsets as spans in order that neither touch nor overlap."""
    found: list[Span] = []
    for span in sorted(span for span in spans if span.from_offset < span.to_offset):
        if found and span.from_offset <= found[-1].to_offset:
            found[-1] = Span(found[-1].from_offset, max(found[-1].to_offset, span.to_offset))
        else:
            found.append(span)
    return found


class Pieces(NamedTuple):
    """Where the offsets of a range are, in order: in the lake, in the store of the brokers, or nowhere."""

    archived: list[Span]
    stored: list[Span]
    missing: list[Span]


def hand_over(wanted: Span, archived: Sequence[Span], stored: Span) -> Pieces:
    """Divide a range: what the lake has (``archived``, in order) is read there, the rest where it is stored."""
    pieces = Pieces([], [], [])
    at = wanted.from_offset
    for span in (*archived, Span(wanted.to_offset, wanted.to_offset)):
        first = min(max(span.from_offset, at), wanted.to_offset)
        for part, kept in _divided(Span(at, first), stored):
            (pieces.stored if kept else pieces.missing).append(part)
        last = min(max(span.to_offset, first), wanted.to_offset)
        if first < last:
            pieces.archived.append(Span(first, last))
        at = last
    return pieces


def _divided(span: Span, stored: Span) -> Iterator[tuple[Span, bool]]:
    """Yield the parts of a span, with whether they are stored."""
    low = min(max(stored.from_offset, span.from_offset), span.to_offset)
    high = min(max(stored.to_offset, low), span.to_offset)
    for first, last, kept in ((span.from_offset, low, False), (low, high, True), (high, span.to_offset, False)):
        if first < last:
            yield Span(first, last), kept


def _topic_of(path: str) -> str:
    level = next((level for level in path.split("/") if level.startswith(_TOPIC_LEVEL)), "")
    return unquote(level.removeprefix(_TOPIC_LEVEL))
