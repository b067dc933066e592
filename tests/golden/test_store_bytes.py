"""The bytes of every file of a store, written out and compared with directories of Apache RocketMQ 5.3.3."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from zlib import crc32

import pytest
import zstandard
from xxhash import xxh3_64_hexdigest

from pymq.clock import ManualClock
from pymq.model.draft import Draft
from pymq.model.javahash import index_key_hash
from pymq.model.record import decode_record, encode_message
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.support import ROOT, make_store

STORE_MS, LATER_MS = 1_700_000_000_000, 1_700_000_001_500  # 018bcfe56800, 018bcfe56ddc
BORN = bytes.fromhex("0a00000700001234")  # 10.0.0.7:4660
BORN_V6 = bytes.fromhex("000102030405060708090a0b0c0d0e0f00001234")
LONG_TOPIC = "%RETRY%" + "g" * 121  # 128 bytes: too long for a one-byte length

RECORD_V1 = """
    0000006c daa320a7 58932aac  00000001 00000007  size 108, magic v1, CRC of "hi", queue id, flag
    0000000000000000 0000000000000000 00000000     queue offset, physical offset, sysFlag
    00000174876e8000 0a00000700001234              born timestamp, born host
    0000018bcfe56800 7f00000100002a9f              store timestamp, store host
    00000002 0000000000000003                      reconsume times, prepared transaction offset
    00000002 6869 01 54                            body length, body; topic length, topic
    000e 54414753 01 61 02 4b455953 01 6b 02       properties length; TAGS 1 a 2 KEYS 1 k 2
"""
RECORD_V2_V6 = f"""
    000000e8 daa320ab 00000000  00000000 00000000  size 232, magic v2, CRC of nothing, queue id, flag
    0000000000000000 000000000000006c 00000010     queue offset, physical offset, sysFlag: the born host is IPv6
    00000174876e8000 000102030405060708090a0b0c0d0e0f 00001234
    0000018bcfe56ddc 7f00000100002a9f
    00000000 0000000000000000
    00000000 0080 {LONG_TOPIC.encode().hex()}
    0000
"""
RECORD_3 = """
    00000069 daa320a7 58932aac  00000001 00000000  the second record of queue 1
    0000000000000001 0000000000000154 00000000
    0000000000000000 0a00000700001234
    0000018bcfe56ddc 7f00000100002a9f
    00000000 0000000000000000
    00000002 6869 01 54
    000b 554e49515f4b4559 01 55 02                 UNIQ_KEY 1 U 2
"""
BLANK = "00000043 cbd43194                             left in the segment: 67 bytes"


def from_hex(text: str) -> bytes:
    """Parse words of hexadecimal digits; the first other word of a line starts a comment."""
    raw = b""
    for line in text.splitlines():
        for word in line.split():
            try:
                raw += bytes.fromhex(word)
            except ValueError:
                break
    return raw


@pytest.fixture
def files() -> MemoryFiles:
    """Return the files after two commits 1.5 s apart, a third that starts a second segment, and a clean stop."""
    files, clock = MemoryFiles(), ManualClock(STORE_MS)
    store = make_store(
        files, clock, segment_size_bytes=512, queue_file_size_bytes=60, index_slot_count=3, index_entry_count=4
    )
    store.open()
    assert files.read_bytes(f"{ROOT}/abort") == b"pymq"
    store.stage(
        "T",
        1,
        Draft(
            b"hi",
            b"TAGS\x01a\x02KEYS\x01k\x02",
            1_600_000_000_000,
            BORN,
            97,
            7,
            reconsume_times=2,
            prepared_transaction_offset=3,
        ),
    )
    store.commit()
    clock.advance(LATER_MS - STORE_MS)
    store.stage(LONG_TOPIC, 0, Draft(b"", b"", 1_600_000_000_000, BORN_V6))
    store.stage("T", 1, Draft(b"hi", b"UNIQ_KEY\x01U\x02", 0, BORN, -1))
    store.commit()
    store.stage("T", 2, Draft(b"x" * 60, b"", 0, BORN))
    store.commit()
    store.close()
    return files


def test_segments(files: MemoryFiles) -> None:
    first = from_hex(RECORD_V1) + from_hex(RECORD_V2_V6) + from_hex(RECORD_3)
    assert len(first) == 445
    assert files.read_bytes(f"{ROOT}/commitlog/{0:020d}") == (first + from_hex(BLANK)).ljust(512, b"\0")
    second = files.read_bytes(f"{ROOT}/commitlog/{512:020d}")
    assert second[28:36] == from_hex("0000000000000200")
    assert len(second) == 512


def test_queue_units(files: MemoryFiles) -> None:
    units = from_hex("""
        0000000000000000 0000006c 0000000000000061     physical offset 0, 108 bytes, tags code of "a"
        0000000000000154 00000069 ffffffffffffffff     a negative tags code
    """)
    assert files.read_bytes(f"{ROOT}/consumequeue/T/1/{0:020d}") == units.ljust(60, b"\0")
    retry = files.read_bytes(f"{ROOT}/consumequeue/{LONG_TOPIC}/0/{0:020d}")
    assert retry == from_hex("000000000000006c 000000e8 0000000000000000").ljust(60, b"\0")


def test_unused_space_is_a_blank_record(files: MemoryFiles) -> None:
    store = make_store(files, segment_size_bytes=512, queue_file_size_bytes=60, index_slot_count=3, index_entry_count=4)
    store.open()
    queue = store._queues.make("New", 0)
    queue.start_at(2)
    queue.append(0x154, 0x69, 0)
    queue.write_tail()
    raw = files.read_bytes(f"{ROOT}/consumequeue/New/0/{0:020d}")
    assert raw[:20] == raw[20:40] == from_hex("0000000000000000 7fffffff 0000000000000000")
    assert raw[40:] == from_hex("0000000000000154 00000069 0000000000000000")


def index_name(files: MemoryFiles) -> str:
    """Return the file name: the local time of its creation to the millisecond, in the machine's zone."""
    (name,) = files.listdir(f"{ROOT}/index")
    assert len(name) == 17
    assert name.endswith("21500")
    return name


def test_index(files: MemoryFiles) -> None:
    expected = from_hex("""
        0000018bcfe56800 0000018bcfe56ddc              begin and end timestamp
        0000000000000000 0000000000000154              begin and end physical offset
        00000002 00000003                              used slots, number of the next entry
        00000002 00000001 00000000                     slots: 81894 % 3 = 0, 81916 % 3 = 1
        00000000 0000000000000000 00000000 00000000    entry 0 is never used
        00013ffc 0000000000000000 00000000 00000000    hash of "T#k", offset, seconds since the begin, entry before
        00013fe6 0000000000000154 00000001 00000000    hash of "T#U"
    """)
    assert index_key_hash("T", "k") == 0x13FFC
    assert files.read_bytes(f"{ROOT}/index/{index_name(files)}") == expected.ljust(40 + 3 * 4 + 4 * 20, b"\0")


def test_checkpoint(files: MemoryFiles) -> None:
    apache = from_hex("""
        0000018bcfe56ddc 0000018bcfe56ddc              log and queues are on the disk up to this store timestamp
        0000000000000000 0000000000000000 0000000000000000
    """)
    block = from_hex(f"""
        50594d51 00000001                              PYMQ, version 1
        0000018bcfe56ddc 0000018bcfe56ddc              the first two numbers again
        0000000000000298 0000000000000298              the log's end, for log and queues
        0000000000000004                               units of all queues
        0000000000000298 {int(index_name(files)):016x} 0000000000000003
    """)
    begin = from_hex("50594d51 00000002 0000000000000000             nothing was deleted from offset 0 on")
    raw = files.read_bytes(f"{ROOT}/checkpoint")
    end = int.from_bytes(block[24:32], "big")
    assert end == 512 + int.from_bytes(files.read_bytes(f"{ROOT}/commitlog/{512:020d}")[:4], "big")
    ours = b"".join(part + crc32(part).to_bytes(4, "big") for part in (block, begin))
    assert raw == (apache.ljust(64, b"\0") + ours).ljust(4096, b"\0")


def test_digests(files: MemoryFiles) -> None:
    log = files.read_bytes(f"{ROOT}/commitlog/{0:020d}")
    raw = files.read_bytes(f"{ROOT}/digests/{0:020d}")
    assert raw[:24] == from_hex("""
        50594d51 44494701                              PYMQDIG, version 1
        0000000000000000 00001000 00000001             the segment's start, block size, flag: all of it is digested
    """)
    assert raw[512:520].hex() == xxh3_64_hexdigest(log)  # the only block, a short one, as the segment is smaller


def test_tables(files: MemoryFiles) -> None:
    path = f"{ROOT}/config/topics.json"
    JsonTable(files, path).save({"topicConfigTable": {"T": {"perm": 6}}})
    raw = files.read_bytes(path)
    text = '{\n "pymqCrc32": "%s",\n "topicConfigTable": {\n  "T": {\n   "perm": 6\n  }\n }\n}'
    assert raw.decode() == text % f"{crc32((text % '00000000').encode()):08x}"


def test_abort_and_lock(files: MemoryFiles, tmp_path: Path) -> None:
    assert not files.exists(f"{ROOT}/abort")
    lock = RealFiles().lock(str(tmp_path / "lock"))
    assert (tmp_path / "lock").read_bytes() == b"lock"
    lock.release()


@pytest.fixture(scope="module")
def apache() -> dict[str, bytes]:
    """Return every file of a directory after a clean stop of the Java broker."""
    packed = (Path(__file__).parent / "stores" / "store-clean.tar.zst").read_bytes()
    raw = zstandard.ZstdDecompressor().stream_reader(packed).read()
    found = {}
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                found[member.name] = content.read()
    return found


def test_every_apache_record_is_encoded_to_the_same_bytes(apache: dict[str, bytes]) -> None:
    manifest = json.loads((Path(__file__).parent / "stores" / "store-clean.manifest.json").read_text())
    for expected in manifest["messages"]:
        start = expected["commitLogOffset"]
        segment = apache[f"store/commitlog/{start // 65536 * 65536:020d}"]
        raw = segment[start % 65536 :][: expected["storeSize"]]
        assert encode_message(decode_record(raw, check_crc=True)) == raw
    assert len(manifest["messages"]) > 100


def test_apache_files_have_the_layout(apache: dict[str, bytes]) -> None:
    blanks = 0
    for name, content in apache.items():
        if "/commitlog/" in name and int(name[-20:]) < 3 * 65536:
            at = content.rindex(bytes.fromhex("cbd43194")) - 4
            blanks += int.from_bytes(content[at : at + 4], "big") == 65536 - at
        if "/consumequeue/" in name:
            assert len(content) == 2000
    assert blanks == 3
    (index,) = (content for name, content in apache.items() if "/index/" in name)
    assert len(index) == 40 + 500 * 4 + 2000 * 20
    assert index[2040:2060] == bytes(20)
    entry_hash, slot = int.from_bytes(index[2060:2064], "big"), 0
    slot = int.from_bytes(index[40 + entry_hash % 500 * 4 :][:4], "big")
    assert 1 <= slot < int.from_bytes(index[36:40], "big")
    assert apache["store/lock"] == b"lock"
    assert apache["store/checkpoint"][40:] == bytes(4056)
