"""Removes segments of a log after a workload: a start has to say so, and no offset may be given twice."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, StoreError
from pymq.offline.accept_loss import accept_loss
from pymq.offline.directory import open_directory
from pymq.offline.verify import verify
from pymq.store.disk.checkpoint import CheckpointFile
from pymq.store.disk.disk_snapshot import Image
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.crash.checking import BrokenPromiseError
from tests.crash.driver import Driver
from tests.crash.losses import KEEP_ALL
from tests.crash.workloads import Workload
from tests.store.support import ROOT, die, make_store, put

LOG = f"{ROOT}/commitlog"


def check_lost_segments(work: Workload) -> int:
    """Remove each segment, and each run of segments at the end, after a kill and after a stop; return the number."""
    driver = Driver(recording=False, **work.settings)
    work.run(driver)
    # Until units are in their files, a kill with a loss of segments may take their offsets. The checkpoint vouches for
    # the log alone.
    driver.store._queues.write_tails()
    driver.store.checkpoint()
    count = 0
    for is_clean in (False, True):
        if is_clean:
            driver.close()
        image = KEEP_ALL.of(driver.files.snapshot())
        for lost in _choices(image):
            _check(driver, image, lost, work)
            count += 1
    return count


def _choices(image: Image) -> Iterator[list[int]]:
    starts = sorted(int(path.rpartition("/")[2]) for path in image.files if path.startswith(f"{LOG}/"))
    for place in range(len(starts)):
        yield [starts[place]]
        if 0 < place < len(starts) - 1:
            yield starts[place:]


def _check(driver: Driver, image: Image, lost: list[int], work: Workload) -> None:
    files = MemoryFiles.restored(image)
    before = _opened(files, driver, work)
    ends, old_end, first = _ends(before), before.physical_max_offset, before.physical_min_offset
    die(before)
    files = MemoryFiles.restored(image)
    starts = [int(name) for name in files.listdir(LOG)]
    for start in lost:
        files.remove(f"{LOG}/{start:020d}")
    durable = CheckpointFile(files, f"{ROOT}/checkpoint").load().durable
    assert durable is not None
    if len(starts) == len(lost) or (lost[-1] == starts[-1] and durable.log_offset <= lost[0]):
        return  # nothing vouches for it, or nothing is left
    if lost == [first] and first != starts[-1]:
        store = make_store(files, ManualClock(driver.clock.now_ms()), **work.settings)
        if not store.open().lost:
            raise BrokenPromiseError(f"the start does not say that {lost} is missing")
    else:
        try:
            _opened(files, driver, work)
        except StoreError as error:
            if f"{lost[0]:020d}" not in str(error):
                raise BrokenPromiseError(f"the start does not name {lost}: {error}") from error
        else:
            raise BrokenPromiseError(f"a start without {lost} goes on as if nothing were missing")
        files.after_kill()
        directory = open_directory(files, ROOT)
        accept_loss(directory, files, "00112233445566ff", is_confirmed=True)
        directory.close()
        store = _opened(files, driver, work)
    _check_offsets(store, driver, ends, old_end, lost)
    store.close()
    directory = open_directory(files, ROOT)
    report = verify(directory)
    directory.close()
    if not report.sound:
        raise BrokenPromiseError(f"without {lost}, the directory is not sound: {report.first_bad}")


def _check_offsets(
    store: MessageStore, driver: Driver, ends: dict[tuple[str, int], int], old_end: int, lost: list[int]
) -> None:
    now = _ends(store)
    lower = {queue: (now.get(queue), end) for queue, end in ends.items() if now.get(queue, 0) < end}
    if lower or store.physical_max_offset < old_end:
        raise BrokenPromiseError(f"offsets are given twice without {lost}: {lower}, {store.physical_max_offset}")
    size = store.settings.segment_size_bytes
    for record in driver.ledger.records:
        if record.start >= store.physical_min_offset and record.start - record.start % size not in lost:
            try:
                raw = bytes(store.record_at(record.start))
            except CorruptRecordError as error:
                raise BrokenPromiseError(f"without {lost}, another record is lost: {error}") from error
            if raw != record.raw:
                raise BrokenPromiseError(f"without {lost}, the record at {record.start} differs")
    for topic, queue_id in ends:
        offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        while offset < end:
            result = store.get(topic, queue_id, offset, 32, 1 << 20)
            if result.next_offset <= offset:
                raise BrokenPromiseError(f"without {lost}, {topic} {queue_id} can't be read from {offset} on")
            offset = result.next_offset
    placed = put(store, "Alpha", 0, b"behind")
    if placed.physical_offset < old_end or placed.queue_offset < ends.get(("Alpha", 0), 0):
        raise BrokenPromiseError(f"without {lost}, a message gets the place {placed} again")


def _opened(files: MemoryFiles, driver: Driver, work: Workload) -> MessageStore:
    store = make_store(files, ManualClock(driver.clock.now_ms()), **work.settings)
    store.open()
    return store


def _ends(store: MessageStore) -> dict[tuple[str, int], int]:
    return {(topic, queue_id): store.max_offset(topic, queue_id) for topic, queue_id in store.queues()}
