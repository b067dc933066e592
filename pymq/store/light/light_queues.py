"""LightQueues: the queues of lite topics. They share one list of entries, so a million of them need no file each.

A lite topic costs memory for its name and three numbers. Its queue is a chain of entries in the shared list
(:mod:`pymq.store.light.entry_files`), each of which leads to a record of the parent topic. Like consume queues, entries
are derived from the log: the records say in which light queue they are, and at which offset.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pymq.errors import StoreError
from pymq.model.lite_topics import DISPATCH_MARK, light_place
from pymq.store.disk.fs import Files
from pymq.store.light.entry_files import FAR_RANKS, NO_ENTRY, EntryFiles, LightEntry, pack_entry
from pymq.store.light.light_chains import LightChains
from pymq.store.light.table_file import LightTable, LightTableFile
from pymq.store.log.log_record import Scanned, has_queue_unit
from pymq.store.settings import StoreSettings

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

LIGHT_DIRECTORY = "lightqueue"
NAMES_A_SWEEP = 20_000  # looked at in one step, 5 ms


NEW_QUEUE = -1  # the number of a light queue that has none before its first message is visible
# A staged message of a light queue: parent, lite topic, number, offset there, physical offset, size, store time in ms.
StagedLight = tuple[str, str, int, int, int, int, int]


class NotedLights(NamedTuple):
    """What the files hold at one moment: entries below ``entry_end``, and table ``number`` if it waits for a save."""

    entry_end: int = 0
    table: LightTable | None = None
    number: int = 0


# Gets what became visible.
OnPublished = Callable[[list[StagedLight]], None]
# Reads the topic and the properties of a record of this physical offset and size; None when it can't be read.
ReadRecord = Callable[[int, int], Scanned | None]


class LightQueues(LightChains):
    """One thread calls everything; :meth:`save` may run in another.

    ``problem`` says why files lag behind memory; None while they don't.
    """

    def __init__(self, files: Files, root: str, settings: StoreSettings, deleted_end: Callable[[str], int]) -> None:
        """``deleted_end``: records of a topic below this physical offset are deleted."""
        directory = f"{root}/{LIGHT_DIRECTORY}"
        super().__init__(EntryFiles(files, directory, settings.light_file_entry_count), deleted_end)
        self._table_entry_count = settings.light_table_entry_count
        self._table = LightTableFile(files, f"{directory}/table")
        self._ends = array("q")  # by number: the next offset
        self._ranks = array("q")  # by number: the rank of the newest entry
        self._far = array("q")  # by number: the newest entry that names one far before it, as far as it is known
        self._free: list[int] = []  # numbers without a queue
        self._next = array("q")  # by number: the offset of the next message that is staged
        self._pending: dict[tuple[str, str], int] = {}  # likewise of queues that are new
        self._floor = 0  # the first offset of a new queue: a name that comes again does not repeat offsets
        self._due_table: LightTable | None = None  # waits for the next save
        self._table_number = self._saved_number = 0  # of the newest table, and of the newest one on the disk
        self._saved_end = 0  # entries that the table on the disk knows of
        self._unswept: Iterator[tuple[str, str]] | None = None
        self._swept_for = 0
        self.count = 0
        self.wants_table = False  # a table is to be saved although few entries have come
        self.problem: str | None = None
        self.on_published: OnPublished | None = None
        self._damage: str | None = None  # the next start makes the entries again from the log

    # -- start and stop ------------------------------------------------------------------------------------------

    def load(self, limit: int, log_begin: int, log_end: int, read_record: ReadRecord) -> int:
        """Take what the files hold of records below the physical offset ``limit``; return the number of entries.

        A saved table that knows more than that counts as it is. Raises OSError.
        """
        self._entries.load()
        table = self._table.load()
        is_usable = table is not None and self._entries.begin <= table.entry_end <= self._entries.end
        if table is not None and is_usable and table.covered <= log_end:
            self._numbers, self._newest, self._ends, self._ranks = table.names(), table.newest, table.ends, table.ranks
            self._floor, self.covered, end = table.floor, table.covered, table.entry_end
            self._far = array("q", [NO_ENTRY]) * len(self._newest)
            self._next = self._ends[:]
            self._saved_end = end
        else:
            end = self._entries.begin
            if table is not None:
                self._table.remove()  # entries are made again from the log, perhaps with other numbers of queues
        replaced: dict[int, tuple[str, str]] = {}
        for number, entry in self._entries.entries_from(end):
            if entry.physical_offset >= limit or not self._redo(number, entry, log_begin, read_record, replaced):
                break
            end = number + 1
        self._entries.truncate(end)
        self._drop_replaced(replaced)
        self.covered = max(self.covered, limit)
        return end

    def _redo(
        self,
        number: int,
        entry: LightEntry,
        log_begin: int,
        read_record: ReadRecord,
        replaced: dict[int, tuple[str, str]],
    ) -> bool:
        """Let an entry of the files count as the newest one of its queue. False when its queue can't be found out."""
        queue = entry.queue
        if queue > len(self._newest) + number:  # no run gives out numbers that far apart
            return False
        while queue >= len(self._newest):
            self._add_number()
        if entry.previous == NO_ENTRY or self._newest[queue] == NO_ENTRY:
            if entry.physical_offset < log_begin:
                return True
            record = read_record(entry.physical_offset, entry.size_bytes)
            place = None if record is None else light_place(record.topic, record.properties)
            if record is None or place is None:
                return False
            self._numbers.setdefault(record.topic, {})[place.lite] = queue
            replaced[queue] = (record.topic, place.lite)
        self._newest[queue] = number
        self._ends[queue] = self._next[queue] = entry.queue_offset + 1
        self._ranks[queue] = entry.rank
        if entry.rank % FAR_RANKS == 0:
            self._far[queue] = number
        return True

    def _drop_replaced(self, replaced: dict[int, tuple[str, str]]) -> None:
        """Drop names whose queue's number belongs to another name now, and queues of deleted topics; count the rest."""
        for parent in list(self._numbers):
            lites, deleted_end = self._numbers[parent], self._deleted_end(parent)
            doomed = [
                lite
                for lite, queue in lites.items()
                if replaced and replaced.get(queue, (parent, lite)) != (parent, lite)
            ]
            for lite in doomed:
                del lites[lite]
            if deleted_end:
                self._forget_below(parent, deleted_end)
        self._recount()

    def _recount(self) -> None:
        self._numbers = {parent: lites for parent, lites in self._numbers.items() if lites}
        used = bytearray(len(self._newest))
        for lites in self._numbers.values():
            for queue in lites.values():
                used[queue] = 1
        self._free = [queue for queue, is_used in enumerate(used) if not is_used]
        self.count = len(used) - len(self._free)

    def reset(self) -> None:
        """Drop everything: entries are made again from the log. Raises OSError."""
        self._table.remove()
        self._entries.load()
        self._entries.clear()
        self._numbers, self._newest, self._ends, self._ranks = {}, array("q"), array("q"), array("q")
        self._far, self._next = array("q"), array("q")
        self._free, self.count, self.covered, self._floor, self._saved_end = [], 0, 0, 0, 0
        self._due_table = None
        self._damage = None

    def truncate(self, log_end: int) -> None:
        """Drop the entries of records from the physical offset ``log_end`` on. Raises OSError."""
        if self.covered > log_end:
            self.covered = log_end
            self._table.remove()  # it says that later records have no entries
        end = self._entries.end
        newest = self._entries.find(end - 1) if end > self._entries.begin else None
        if newest is None or newest.physical_offset < log_end:
            return
        self._table.remove()  # it may know of what goes
        while newest is not None and newest.physical_offset >= log_end:
            queue, previous = newest.queue, newest.previous
            before = self._entries.find(previous) if previous != NO_ENTRY else None
            self._newest[queue] = previous if before is not None else NO_ENTRY
            self._ends[queue] = self._next[queue] = before.queue_offset + 1 if before is not None else 0
            self._ranks[queue] = before.rank if before is not None else 0
            self._far[queue] = NO_ENTRY
            end -= 1
            newest = self._entries.find(end - 1) if end > self._entries.begin else None
        self._entries.truncate(end)
        self._due_table, self._saved_end = None, 0
        for lites in self._numbers.values():
            for lite in [lite for lite, queue in lites.items() if self._newest[queue] == NO_ENTRY]:
                del lites[lite]
        self._recount()

    def close(self) -> None:
        """Close the files."""
        self._entries.close()

    def _note_damage(self, text: str) -> None:
        if self._damage is None:
            self._damage = text
            self._table.remove()

    # -- growing -------------------------------------------------------------------------------------------------

    def place(self, parent: str, lite: str) -> tuple[int, int]:
        """Return the number of a light queue, and the offset of the next message that is staged."""
        lites = self._numbers.get(parent)
        if lites is not None:
            queue = lites.get(lite)
            if queue is not None:
                return queue, self._next[queue]
        return NEW_QUEUE, self._pending.get((parent, lite), self._floor)

    def note_staged(self, parent: str, lite: str, queue: int, offset: int) -> None:
        """Take note of a staged message at a :meth:`place`: the next one gets the next offset."""
        if queue >= 0:
            self._next[queue] = offset + 1
        else:
            self._pending[parent, lite] = offset + 1

    def drop_staged(self, dropped: list[StagedLight]) -> None:
        """Give the offsets of staged messages back. ``dropped``: all that were not committed, in their order."""
        for parent, lite, _, offset, *_ in reversed(dropped):
            self.note_staged(parent, lite, self._numbers.get(parent, {}).get(lite, NEW_QUEUE), offset - 1)
        for parent, lite, *_ in dropped:
            if self._pending.get((parent, lite)) == self._floor:
                del self._pending[parent, lite]

    def publish(self, staged: list[StagedLight]) -> None:
        """Make committed messages visible."""
        # _append, written out for messages behind others that need no look at earlier entries.
        entries, begin = self._entries, self._entries.begin
        newest, ends, ranks = self._newest, self._ends, self._ranks
        number, packed = entries.end, []
        for parent, lite, queue, offset, physical_offset, size_bytes, store_ms in staged:
            if queue >= 0 and (previous := newest[queue]) >= begin and offset >= ends[queue]:
                rank = ranks[queue] + 1
                if rank % FAR_RANKS:
                    packed.append(
                        pack_entry(physical_offset, size_bytes, queue, offset, store_ms, previous, NO_ENTRY, rank, 0)
                    )
                    newest[queue], ends[queue], ranks[queue] = number, offset + 1, rank
                    number += 1
                    continue
            entries.extend(packed)
            packed.clear()
            self._append(parent, lite, offset, physical_offset, size_bytes, store_ms)
            number = entries.end
        entries.extend(packed)
        if staged:
            self.covered = physical_offset + size_bytes
            self._write_if_long()
            if self.on_published is not None:
                self.on_published(staged)

    def take(self, record: Scanned) -> None:
        """Add the entry of a record of the log if it has one and is not known yet."""
        if (
            DISPATCH_MARK not in record.properties
            or record.offset < self.covered
            or not has_queue_unit(record.sys_flag)
        ):
            return
        place = light_place(record.topic, record.properties)
        if place is None or record.offset < self._deleted_end(record.topic):
            return
        self._append(record.topic, place.lite, place.offset, record.offset, record.size, record.store_ms)
        self._write_if_long()

    def take_many(self, records: Records) -> None:
        """Do as :meth:`take` for many records."""
        templated = records.templated
        if templated is not None and templated.values(DISPATCH_MARK[:-1]) is None:
            return
        for number, properties in enumerate(records.properties):
            if DISPATCH_MARK in properties:
                self.take(records.at(number))

    def _append(
        self, parent: str, lite: str, offset: int, physical_offset: int, size_bytes: int, store_ms: int
    ) -> None:
        number = self._entries.end
        lites = self._numbers.get(parent)
        if lites is None:
            lites = self._numbers[parent] = {}
        queue = lites.get(lite)
        previous, rank, far, far_rank = NO_ENTRY, 0, number, 0
        if queue is None:
            queue = lites[lite] = self._new_number()
            self._next[queue] = self._pending.pop((parent, lite), offset + 1)
        elif self._newest[queue] >= self._entries.begin:
            previous = self._newest[queue]
            if offset < self._ends[queue]:  # the queue starts again
                self._next[queue] = offset + 1
            else:
                rank = self._ranks[queue] + 1
                far, far_rank = NO_ENTRY, 0
                if rank % FAR_RANKS == 0:
                    try:
                        known = self._far[queue]
                        far, far_rank = self._far_from(known if known >= self._entries.begin else previous)
                    except (StoreError, OSError):
                        rank, far = 0, number  # the message counts, and a start brings back those before it
        self._entries.append(physical_offset, size_bytes, queue, offset, store_ms, previous, far, rank, far_rank)
        self._newest[queue] = number
        self._ends[queue] = offset + 1
        self._next[queue] = max(self._next[queue], offset + 1)
        self._ranks[queue] = rank
        if rank % FAR_RANKS == 0:
            self._far[queue] = number
        self.covered = physical_offset + size_bytes

    def _new_number(self) -> int:
        self.count += 1
        if self._free:
            return self._free.pop()
        self._add_number()
        return len(self._newest) - 1

    def _add_number(self) -> None:
        self._newest.append(NO_ENTRY)
        self._ends.append(0)
        self._ranks.append(0)
        self._far.append(NO_ENTRY)
        self._next.append(0)

    # -- reading -------------------------------------------------------------------------------------------------

    def has(self, parent: str, lite: str) -> bool:
        """Return True for a lite topic with messages, or one that had some not long ago."""
        return lite in self._numbers.get(parent, ())

    def page(self, parent: str, start: int, count: int) -> list[tuple[str, int]]:
        """Return ``count`` lite topics of a parent behind the first ``start``, with their next offsets."""
        some = islice(self._numbers.get(parent, {}).items(), start, start + count)
        return [(lite, self._ends[queue]) for lite, queue in some]

    def count_of(self, parent: str) -> int:
        """Return the number of the parent's lite topics."""
        return len(self._numbers.get(parent, ()))

    def names_of(self, parent: str) -> list[str]:
        """Return the names of the parent's lite topics."""
        return list(self._numbers.get(parent, ()))

    def max_offset(self, parent: str, lite: str) -> int:
        """Return the next offset of a lite topic that is visible; of an unknown one its first."""
        queue = self._numbers.get(parent, {}).get(lite)
        return self._floor if queue is None else self._ends[queue]

    # -- forgetting ----------------------------------------------------------------------------------------------

    def forget_parent(self, parent: str, end: int) -> None:
        """Forget the lite topics of a topic whose records below the physical offset ``end`` were deleted."""
        before = self.count
        self._forget_below(parent, end)
        self._pending = {names: offset for names, offset in self._pending.items() if names[0] != parent}
        for queue in self._numbers.get(parent, {}).values():
            self._next[queue] = self._ends[queue]
        if self.count != before:
            self.wants_table = True

    def _forget_below(self, parent: str, end: int) -> None:
        lites = self._numbers.get(parent, {})
        first = self._first_from(end)
        for lite in [lite for lite, queue in lites.items() if self._newest[queue] < first]:
            self._forget(parent, lite)

    def sweep(self, log_begin: int) -> bool:
        """Forget some lite topics whose records are all gone, and at last their files; True when nothing is left to do.

        Raises StoreError, OSError.
        """
        if self._swept_for != log_begin:
            self._swept_for = log_begin
            self._unswept = ((parent, lite) for parent, lites in list(self._numbers.items()) for lite in list(lites))
        if self._unswept is None:
            return True
        first = self._first_from(log_begin)
        some = list(islice(self._unswept, NAMES_A_SWEEP))
        for parent, lite in some:
            queue = self._numbers.get(parent, {}).get(lite)
            if queue is not None and self._newest[queue] < first and self._next[queue] == self._ends[queue]:
                self._forget(parent, lite)
                self.wants_table = True
        if len(some) == NAMES_A_SWEEP:
            return False
        self._unswept = None
        self._entries.drop_before(min(first, self._saved_end))
        return True

    def _forget(self, parent: str, lite: str) -> None:
        lites = self._numbers[parent]
        queue = lites.pop(lite)
        if not lites:
            del self._numbers[parent]
        self._floor = max(self._floor, self._ends[queue])
        self._newest[queue] = self._far[queue] = NO_ENTRY
        self._free.append(queue)
        self.count -= 1

    def is_older(self, parent: str, lite: str, number: int) -> bool:
        """Return True for a lite topic whose newest entry comes before entry ``number``, with nothing staged."""
        queue = self._numbers.get(parent, {}).get(lite)
        return queue is not None and self._newest[queue] < number and self._next[queue] == self._ends[queue]

    def expire(self, parent: str, lite: str, number: int) -> bool:
        """Forget a lite topic if :meth:`is_older`."""
        if not self.is_older(parent, lite, number):
            return False
        self._forget(parent, lite)
        self.wants_table = True
        return True

    # -- files ---------------------------------------------------------------------------------------------------

    @property
    def entry_end(self) -> int:
        """The number of entries, gone ones among them."""
        return self._entries.end

    def _write_if_long(self) -> None:
        if self._entries.is_tail_long:
            self.write()

    def write(self) -> bool:
        """Write all entries to their files. False when that is not possible now: they stay in memory.

        ``problem`` then says so, until it is possible again.
        """
        try:
            self._entries.write()
        except OSError as error:
            self.problem = f"light queue files lag behind: {error.filename}: {error.strerror}"
            return False
        self.problem = self._damage
        return True

    def note(self, covered: int) -> NotedLights:
        """Return what the files hold now that all records below the physical offset ``covered`` have their entries."""
        end = self._entries.end
        if self._damage is not None or not end:
            return NotedLights(end)
        table = self._due_table
        if table is not None and self._table_number == self._saved_number:
            table = self._due_table = None
        known_end = table.entry_end if table is not None else self._saved_end
        if self.wants_table or end >= known_end + max(self._table_entry_count, self.count // 4):
            self.wants_table = False
            parents = [(parent, list(lites), list(lites.values())) for parent, lites in self._numbers.items()]
            columns = self._newest[:], self._ends[:], self._ranks[:]
            table = LightTable(covered, end, self._floor, parents, *columns)
            self._due_table = table
            self._table_number += 1
        return NotedLights(end, table, self._table_number)

    def save(self, noted: NotedLights) -> None:
        """Bring noted entries to the disk, and the table. Safe from another thread. Raises OSError."""
        if noted.entry_end:
            self._entries.sync()
        if noted.table is not None and noted.number > self._saved_number:
            self._table.save(noted.table)
            self._saved_end, self._saved_number = noted.table.entry_end, noted.number
