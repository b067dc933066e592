"""A log that is cut where its master's goes another way: what is cut is kept, the rest serves."""

from __future__ import annotations

import json

from pymq.clock import ManualClock
from pymq.store.diverged import cut_log, list_cuts
from pymq.store.memory_fs import MemoryFiles
from pymq.store.settings import StoreSettings
from tests.store.support import ROOT, SMALL, bodies, everything, make_store, put

SETTINGS = StoreSettings(**SMALL)


def test_what_is_cut_is_kept_and_the_rest_serves() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    places = [put(store, "T", n % 2, body, keys=f"k{n}") for n, body in enumerate(bodies(80))]
    end = store.physical_max_offset
    place = places[50].physical_offset
    kept = [bytes(store.record_at(each.physical_offset)) for each in places[50:]]
    store.close()
    cut = cut_log(files, ROOT, SETTINGS, place + 10, ManualClock(), why="a test")
    assert (cut.start, cut.end, cut.message_count, cut.why) == (place, end, 30, "a test")
    assert list_cuts(files, ROOT) == [cut]
    raw = files.read_bytes(cut.path)
    assert len(raw) == end - place
    for each, record in zip(places[50:], kept, strict=True):
        assert raw[each.physical_offset - place :][: each.size_bytes] == record
    assert json.loads(files.read_bytes(cut.path.removesuffix(".log") + ".json"))["start"] == place
    again = make_store(files)
    report = again.open()
    assert report.clean and report.scan_start == place == again.physical_max_offset
    assert everything(again) == {("T", q): [body for n, body in enumerate(bodies(50)) if n % 2 == q] for q in (0, 1)}
    assert again.find_by_key("T", "k49", 9) and not again.find_by_key("T", "k50", 9)
