"""Damages a store's derived files, or one bit of them, and checks that no message of the log is silently missing.

A damage hits the queues, the index, the checkpoint or the digests of a stopped or killed store in memory. Then the
store starts, everything is read by queue, by tag, by key and by id, and is compared with what the log holds. ``verify``
and ``repair`` of the damaged directory must agree with the start.
"""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import zstandard

from pymq.clock import ManualClock
from pymq.errors import PymqError
from pymq.model.javahash import tags_code
from pymq.model.layout import INDEX_ENTRY_SIZE_BYTES, INDEX_HEADER_SIZE_BYTES, INDEX_SLOT_SIZE_BYTES
from pymq.model.record import StoredMessage, decode_record, decode_records
from pymq.offline.directory import open_directory
from pymq.offline.repair import repair
from pymq.offline.verify import verify
from pymq.printable import printable
from pymq.store.disk.disk_snapshot import Image
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.regular_files import FileKind, OddFileError
from pymq.store.index.index_file import index_file_size
from pymq.store.store import GetStatus, MessageStore
from tests.store.support import ROOT, die, drop_oldest, make_store, put

GOLDEN = Path(__file__).parents[1] / "golden" / "stores"
SIZES: dict[str, Any] = {
    "segment_size_bytes": 1 << 13,
    "queue_file_size_bytes": 400,
    "index_slot_count": 20,
    "index_entry_count": 100,
}
GOLDEN_SIZES: dict[str, Any] = {
    "segment_size_bytes": 1 << 16,
    "queue_file_size_bytes": 2000,
    "index_slot_count": 500,
    "index_entry_count": 2000,
}
TAGS = ("", "A", "B")
OPTIONS = {"maxHashSlotNum": "20", "maxIndexNum": "100"}
START_MS = 1_700_000_000_000
LATER_MS = 1_800_000_000_000
_ENDS = (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.NO_MESSAGE_IN_QUEUE)

Queue = tuple[str, int]
Place = tuple[str, int, int]  # topic, queue id, queue offset


class Origin(NamedTuple):
    """A sound store at rest, and what it serves."""

    name: str
    image: Image
    sizes: dict[str, Any]
    records: dict[Place, bytes]
    limits: dict[Queue, tuple[int, int]]  # minimum and maximum offset of each queue
    keys: dict[tuple[str, str], set[int]]  # physical offsets by topic and key
    log_end: int


class SilentLossError(AssertionError):
    """An intact message is not served, and no error says so."""


# -- sound stores -----------------------------------------------------------------------------------------------------


def origins() -> list[Origin]:
    """Return the sound stores: stopped, killed, after retention, without PyMQ's checkpoint, and Apache's own."""
    stopped, killed = _filled(300, drop=0)
    old_stopped, old_killed = _filled(420, drop=2)
    made = [("stopped", stopped), ("killed", killed), ("retention", old_stopped), ("retention, killed", old_killed)]
    images = [(name, image, SIZES) for name, image in made]
    images.append(("foreign", _without_block(stopped), SIZES))
    images.append(("without sums", _with(stopped, {f"{ROOT}/digests/queues": None}), SIZES))
    images += [(name, _golden(name), GOLDEN_SIZES) for name in ("store-clean", "store-killed")]
    return [_origin(name, image, sizes) for name, image, sizes in images]


def _filled(count: int, drop: int) -> tuple[Image, Image]:
    """Return a store after its stop, and the same store killed a moment before with messages behind its checkpoint."""
    clock = ManualClock(START_MS)
    files = MemoryFiles(now_ms=clock.now_ms)
    store = make_store(files, clock, **SIZES)
    store.open()
    rng = Random(count)
    for i in range(count):
        topic, queue_id = rng.choice((("T1", 0), ("T1", 1), ("T2", 0), ("T1", 0)))
        put(store, topic, queue_id, b"%d" % i * rng.randint(1, 20), tags=rng.choice(TAGS), keys=f"k{i % 200}")
        if i == 5:
            put(store, "Once", 0, b"once", tags="A", keys="once")
        if i == count * 3 // 4:
            clock.advance(60_000)
            store.tick()
            store.sync()
        clock.advance(10)
    for _ in range(drop):
        drop_oldest(store)
    if drop:
        store.checkpoint()
    store.tick()
    killed = files.snapshot().image()
    store.close()
    return files.snapshot().image(), killed


def _without_block(image: Image) -> Image:
    """Return the store as another broker leaves it: PyMQ's block of the checkpoint does not count."""
    path = f"{ROOT}/checkpoint"
    raw = bytearray(image.files[path])
    raw[64:140] = bytes(76)
    return image._replace(files={**image.files, path: bytes(raw)})


def _golden(name: str) -> Image:
    raw = zstandard.ZstdDecompressor().stream_reader((GOLDEN / f"{name}.tar.zst").read_bytes()).read()
    files: dict[str, bytes] = {}
    directories = {"/", ROOT}
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for member in archive.getmembers():
            path = ROOT + "/" + member.name.partition("/")[2] if "/" in member.name else ROOT
            if member.isdir():
                directories.add(path.rstrip("/"))
            elif (content := archive.extractfile(member)) is not None:
                files[path] = content.read()
    return Image(files=files, directories=sorted(directories))


def _origin(name: str, image: Image, sizes: dict[str, Any]) -> Origin:
    store = make_store(MemoryFiles.restored(image), ManualClock(LATER_MS), **sizes)
    store.open()
    records: dict[Place, bytes] = {}
    limits: dict[Queue, tuple[int, int]] = {}
    keys: dict[tuple[str, str], set[int]] = {}
    for topic, queue_id in store.queues():
        limits[topic, queue_id] = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        for message, raw in _pulled(store, topic, queue_id, None, []):
            records[topic, queue_id, message.queue_offset] = raw
            for key in (message.properties.get("KEYS") or "").split():
                keys.setdefault((topic, key), set()).add(message.physical_offset)
    end = store.physical_max_offset
    die(store)
    return Origin(name, image, sizes, records, limits, keys, end)


# -- damages ----------------------------------------------------------------------------------------------------------


@dataclass
class Damage:
    """What was done to an image: ``text`` says it, ``kind`` is counted."""

    kind: str
    text: str
    image: Image


Damager = Callable[[Random, Image], Damage | None]


def _paths(image: Image, part: str) -> list[str]:
    return sorted(path for path in image.files if path.startswith(f"{ROOT}/{part}"))


def _flip(part: str) -> Damager:
    def damage(rng: Random, image: Image) -> Damage | None:
        used = [(path, len(image.files[path].rstrip(b"\0"))) for path in _paths(image, part)]
        used = [(path, size) for path, size in used if size]
        if not used:
            return None
        path, size = rng.choice(used)
        unit = -(-size // 20) * 20
        at, bit = rng.randrange(min(unit, len(image.files[path]))), rng.randrange(8)
        content = bytearray(image.files[path])
        content[at] ^= 1 << bit
        return Damage(f"flip {part}", f"bit {bit} of byte {at} of {path}", _with(image, {path: bytes(content)}))

    return damage


def _file(part: str, how: str) -> Damager:
    def damage(rng: Random, image: Image) -> Damage | None:
        paths = _paths(image, part)
        if not paths:
            return None
        path = rng.choice(paths)
        content = image.files[path]
        changed: dict[str, bytes | None]
        if how == "delete":
            changed, text = {path: None}, "deleted"
        elif how == "truncate":
            size = rng.choice((0, len(content) // 2, rng.randrange(len(content) + 1)))
            changed, text = {path: content[:size]}, f"truncated to {size}"
        elif how == "zero":
            changed, text = {path: bytes(len(content))}, "zeroed"
        elif how == "zero a part":
            start = rng.randrange(len(content) + 1)
            end = rng.randint(start, len(content))
            changed, text = {path: content[:start] + bytes(end - start) + content[end:]}, f"zeroed {start} to {end}"
        elif how == "extend":
            more = rng.choice((bytes(20), rng.randbytes(7), rng.randbytes(400), bytes(len(content))))
            changed, text = {path: content + more}, f"extended by {len(more)}"
        elif how == "swap":
            other = rng.choice(paths)
            changed, text = {path: image.files[other], other: content}, f"exchanged with {other}"
        elif how == "copy":
            other = rng.choice(paths)
            changed, text = {other: content}, f"copied over {other}"
        else:
            name = rng.choice((f"{rng.randrange(8) * 400:020d}", path.rpartition("/")[2] + ".bak", "20231114221320500"))
            other = f"{path.rpartition('/')[0]}/{name}"
            changed, text = {path: None, other: content}, f"renamed to {other}"
        return Damage(f"{how} {part}", f"{path} {text}", _with(image, changed))

    return damage


def _empty_link(rng: Random, image: Image) -> Damage | None:
    """Empty a slot of an index file, or the link of an entry."""
    places: list[tuple[str, int]] = []
    for path in _paths(image, "index"):
        content = image.files[path]
        sizes = next(one for one in (SIZES, GOLDEN_SIZES) if _index_size(one) == len(content))
        entries_at = INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * sizes["index_slot_count"]
        slots = range(INDEX_HEADER_SIZE_BYTES, entries_at, INDEX_SLOT_SIZE_BYTES)
        links = range(entries_at + 16, len(content), INDEX_ENTRY_SIZE_BYTES)
        places += [(path, at) for at in (*slots, *links) if any(content[at : at + 4])]
    if not places:
        return None
    path, at = rng.choice(places)
    emptied = image.files[path][:at] + bytes(4) + image.files[path][at + 4 :]
    return Damage("empty a link index", f"the link at {at} of {path} emptied", _with(image, {path: emptied}))


def _index_size(sizes: dict[str, Any]) -> int:
    return index_file_size(sizes["index_slot_count"], sizes["index_entry_count"])


def _tree(part: str, how: str) -> Damager:
    """Damage a directory of a queue or a topic, or a whole part."""

    def damage(rng: Random, image: Image) -> Damage | None:
        directories = sorted({path.rpartition("/")[0] for path in _paths(image, part)} - {f"{ROOT}/{part}"})
        if how == "delete all":
            chosen, target = f"{ROOT}/{part}", None
        elif not directories:
            return None
        else:
            chosen = rng.choice(directories)
            if how == "delete topic":
                chosen = chosen.rpartition("/")[0]
            target = rng.choice(directories) if how == "swap trees" else f"{chosen}7"
        if how.startswith("delete"):
            return Damage(f"{how} {part}", f"{chosen} {how}", _moved(image, {chosen: None}))
        assert target is not None
        moves = {chosen: target, target: chosen} if how == "swap trees" else {chosen: target}
        return Damage(f"{how} {part}", f"{chosen} {how} {target}", _moved(image, moves))

    return damage


def _with(image: Image, changed: Mapping[str, bytes | None]) -> Image:
    files = {**image.files, **changed}
    return image._replace(files={path: content for path, content in files.items() if content is not None})


def _moved(image: Image, moves: Mapping[str, str | None]) -> Image:
    def moved(path: str) -> str | None:
        for source, target in moves.items():
            if path == source or path.startswith(source + "/"):
                return None if target is None else target + path[len(source) :]
        return path

    files = {new: content for path, content in image.files.items() if (new := moved(path)) is not None}
    directories = sorted({new for path in image.directories if (new := moved(path)) is not None})
    return image._replace(files=files, directories=directories)


def _odd_file(part: str) -> Damager:
    """Put what is no regular file in the place of one."""

    def damage(rng: Random, image: Image) -> Damage | None:
        paths = _paths(image, part)
        if not paths:
            return None
        path, kind = rng.choice(paths), rng.choice(ODD_KINDS)
        changed = _with(image, {path: None})._replace(odd={path: kind})
        return Damage(f"odd file {part}", f"{path} became {kind.value}", changed)

    return damage


def _odd_directory(rng: Random, image: Image) -> Damage | None:
    """Put what is no directory in the place of a queue's or a topic's."""
    chosen = rng.choice(_paths(image, "consumequeue")).rpartition("/")[0]
    if rng.randrange(2):
        chosen = chosen.rpartition("/")[0]
    kind = rng.choice(ODD_KINDS)
    return Damage(
        "odd directory", f"{chosen} became {kind.value}", _moved(image, {chosen: None})._replace(odd={chosen: kind})
    )


def _odd_name(rng: Random, image: Image) -> Damage | None:
    """Add a directory or a file whose name a terminal would obey, or something that nothing reads."""
    above = rng.choice([path for path in image.directories if path.startswith(ROOT)])
    path = f"{above}/{rng.choice(ODD_NAMES)}"
    how = rng.choice(("directory", "file", "fifo"))
    if how == "directory":
        changed = image._replace(directories=sorted([*image.directories, path, f"{path}/0"]))
    elif how == "file":
        changed = _with(image, {path: b"something"})
    else:
        changed = image._replace(odd={path: FileKind.FIFO})
    return Damage("odd name", f"a {how} {path!r} was made", changed)


ODD_KINDS = (FileKind.FIFO, FileKind.LINK, FileKind.SOCKET, FileKind.DEVICE)
ODD_NAMES = ("T\x1b[2J", "T\nERROR all is lost", "\x9b", "\udcff", "ordinary")
FILE_DAMAGES = ("delete", "truncate", "zero", "zero a part", "extend", "swap", "copy", "rename")
DAMAGERS: dict[str, tuple[Damager, int]] = {
    "flip consumequeue": (_flip("consumequeue"), 6),
    **{f"{how} consumequeue": (_file("consumequeue", how), 3) for how in FILE_DAMAGES},
    **{
        f"{how} consumequeue": (_tree("consumequeue", how), 1)
        for how in ("delete all", "delete tree", "delete topic", "swap trees", "rename tree")
    },
    "flip index": (_flip("index"), 2),
    **{f"{how} index": (_file("index", how), 1) for how in FILE_DAMAGES},
    "empty a link index": (_empty_link, 1),
    "delete all index": (_tree("index", "delete all"), 1),
    **{f"{how} checkpoint": (_file("checkpoint", how), 1) for how in ("delete", "truncate", "zero")},
    "flip checkpoint": (_flip("checkpoint"), 1),
    **{f"{how} digests": (_file("digests", how), 1) for how in FILE_DAMAGES},
    "flip digests": (_flip("digests"), 2),
    "delete all digests": (_tree("digests", "delete all"), 1),
}
# What is neither a file nor a directory. A start may refuse it: the error names the path.
ODD_DAMAGERS: dict[str, tuple[Damager, int]] = {
    **{f"odd file {part}": (_odd_file(part), 1) for part in ("consumequeue", "index", "digests", "checkpoint")},
    "odd directory": (_odd_directory, 1),
    "odd name": (_odd_name, 1),
}

# Only verify compares every entry with its record, as look-ups compare those they meet.
ENTRY_DAMAGES = ("flip index",)


# -- the search -------------------------------------------------------------------------------------------------------


@dataclass
class DamageTally:
    """How many damages of each kind were tried, and how loud errors and notes were."""

    kinds: Counter[str] = field(default_factory=Counter)
    silent: int = 0  # damages that ended in a SilentLossError
    errors: int = 0  # reads that were refused
    refused: int = 0  # starts that were refused
    verified: int = 0
    repaired: int = 0

    @property
    def count(self) -> int:
        return sum(self.kinds.values())

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{self.count} damages, {self.silent} silent, {self.errors} refused reads, {self.refused} refused starts, "
            f"{self.verified} verified, {self.repaired} repaired: {kinds}"
        )


def search(
    sound: list[Origin],
    seeds: range,
    tally: DamageTally,
    *,
    offline_every: int = 4,
    damagers: Mapping[str, tuple[Damager, int]] = DAMAGERS,
) -> None:
    """Try one damage for each seed. Every ``offline_every``-th directory is also verified and repaired."""
    for seed in seeds:
        origin, damage = damaged(sound, seed, damagers)
        tally.kinds[damage.kind] += 1
        try:
            is_refused = damage.kind in ODD_DAMAGERS and is_refused_by_name(origin, damage.image)
            if not is_refused:
                tally.errors += check_start(origin, damage.image, is_whole=damage.kind not in ENTRY_DAMAGES)
            tally.refused += is_refused
            if seed % offline_every == 0 or is_refused:
                check_offline(origin, damage.image, tally)
        except Exception as error:
            tally.silent += 1
            raise SilentLossError(
                f"seed {seed}, {origin.name}: {damage.text}: {type(error).__name__}: {error}"
            ) from error


def damaged(
    sound: list[Origin], seed: int, damagers: Mapping[str, tuple[Damager, int]] = DAMAGERS
) -> tuple[Origin, Damage]:
    """Return the store and the damage of a seed."""
    rng = Random(seed)
    while True:
        origin = rng.choice(sound)
        names, weights = list(damagers), [weight for _, weight in damagers.values()]
        damage = damagers[rng.choices(names, weights)[0]][0](rng, origin.image)
        if damage is not None and damage.image != origin.image:
            return origin, damage


def check_queues(origin: Origin, image: Image) -> None:
    """Start the damaged store and read all its queues."""
    store = make_store(MemoryFiles.restored(image), ManualClock(LATER_MS), **origin.sizes)
    store.open()
    try:
        _compare(origin, store, with_keys=False)
    finally:
        die(store)


def is_refused_by_name(origin: Origin, image: Image) -> bool:
    """Return True for a start that ends in an error that names the odd path."""
    files = MemoryFiles.restored(image)
    store = make_store(files, ManualClock(LATER_MS), **origin.sizes)
    try:
        store.open()
    except OddFileError as error:
        assert error.filename in image.odd, error
        return True
    die(store)
    return False


def check_start(origin: Origin, image: Image, *, is_whole: bool = True) -> int:
    """Start the damaged store and read everything, twice. Returns the number of refused reads.

    Afterwards ``verify`` finds nothing, unless not ``is_whole``: then it may blame entries of the index.
    """
    files = MemoryFiles.restored(image)
    refused = 0
    for number in range(2):
        store = make_store(files, ManualClock(LATER_MS), **origin.sizes)
        store.open()
        try:
            refused += _compare(origin, store)
        finally:
            if number:
                die(store)
            else:
                store.close()
    directory = open_directory(files, ROOT, options=OPTIONS)
    try:
        report = verify(directory)
        others = [one for one in report.findings if one.kind != "file" and (is_whole or one.kind != "index")]
        assert not others, f"after start and stop, verify finds {others[0]}"
    finally:
        directory.close()
    return refused


def _compare(origin: Origin, store: MessageStore, *, with_keys: bool = True) -> int:
    assert store.physical_max_offset == origin.log_end
    errors: list[str] = []
    limits = {
        (topic, queue_id): (store.min_offset(topic, queue_id), store.max_offset(topic, queue_id))
        for topic, queue_id in origin.limits
    }
    assert limits == origin.limits, "limits of queues"
    assert {queue for queue in store.queues() if store.max_offset(*queue)} == set(origin.limits), "queues"
    found: dict[Place, bytes] = {}
    for topic, queue_id in origin.limits:
        found |= {
            (topic, queue_id, message.queue_offset): raw
            for message, raw in _pulled(store, topic, queue_id, None, errors)
        }
    assert found.items() <= origin.records.items(), "wrong content"
    missing = origin.records.keys() - found.keys()
    assert not missing, f"missing {sorted(missing)[:3]}, errors {errors[:3]}"
    for topic, queue_id in origin.limits:
        for tag in TAGS[1:]:
            tagged = {
                message.queue_offset
                for message, _ in _pulled(store, topic, queue_id, frozenset((tags_code(tag),)), errors)
            }
            wanted = {
                offset
                for (t, q, offset), raw in origin.records.items()
                if (t, q) == (topic, queue_id) and decode_record(memoryview(raw)).properties.get("TAGS") == tag
            }
            assert tagged == wanted, f"tag {tag} of {topic} {queue_id}: missing {sorted(wanted - tagged)[:3]}"
    if not with_keys:
        return len(errors)
    for raw in origin.records.values():
        offset = decode_record(memoryview(raw)).physical_offset
        assert bytes(store.record_at(offset)) == raw
    for (topic, key), offsets in origin.keys.items():
        try:
            by_key = {decode_record(one).physical_offset for one in store.find_by_key(topic, key, 64)}
        except PymqError as error:
            errors.append(str(error))
            continue
        assert by_key >= offsets, f"key {key} of {topic} finds {sorted(by_key)}, not {sorted(offsets)}"
    return len(errors)


def _pulled(
    store: MessageStore, topic: str, queue_id: int, codes: frozenset[int] | None, errors: list[str]
) -> Iterator[tuple[StoredMessage, bytes]]:
    """Yield every message of a queue as a consumer that goes on behind a refused message gets it."""
    offset = store.min_offset(topic, queue_id)
    while True:
        try:
            result = store.get(topic, queue_id, offset, 32, 1 << 20, codes)
        except PymqError as error:
            errors.append(str(error))
            offset += 1
            continue
        if result.status in _ENDS:
            return
        raw = b"".join(result.chunks)
        at = 0
        for message in decode_records(raw):
            yield message, raw[at : at + message.size_bytes]
            at += message.size_bytes
        assert result.next_offset > offset, f"stuck at {offset}: {result.status}"
        offset = result.next_offset


def check_offline(origin: Origin, image: Image, tally: DamageTally) -> None:
    """Repair the damaged directory; the copy serves everything. The repair checks its copy itself."""
    files = MemoryFiles.restored(image)
    directory = open_directory(files, ROOT, options=OPTIONS)
    try:
        target = "/copy"
        report = repair(directory, files, target, ManualClock(LATER_MS))
    finally:
        directory.close()
    tally.verified += 1
    named = {one.path for one in report.found.findings if one.kind == "file"}
    assert set(image.odd) <= named, f"verify does not name {set(image.odd) - named}"
    assert report.found.findings == [] or all(printable(one.text) == one.text for one in report.found.findings)
    assert not report.lost, f"repair says that it lost {report.lost[:2]}"
    store = make_store(files, ManualClock(LATER_MS), target, **origin.sizes)
    store.open()
    try:
        _compare(origin, store)
    finally:
        die(store)
    tally.repaired += 1
