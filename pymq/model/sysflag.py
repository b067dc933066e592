"""Bits of a message's ``sysFlag`` and of a pull request's ``sysFlag`` (Java: MessageSysFlag, PullSysFlag)."""

from __future__ import annotations

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
TRANSACTION_NONE = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300

PULL_COMMIT_OFFSET = 0x1
PULL_SUSPEND = 0x2
PULL_SUBSCRIPTION = 0x4
PULL_CLASS_FILTER = 0x8
PULL_LITE = 0x10


def contradiction(flags: int) -> str:
    """Return what is wrong with the flags of a message that a producer sends; empty when nothing is."""
    kind = flags & COMPRESSION_MASK
    if kind and not flags & COMPRESSED:
        return f"it names a compression ({kind:#x}) without the compressed bit ({COMPRESSED:#x})"
    if kind > COMPRESSION_ZLIB:
        known = f"{COMPRESSION_LZ4:#x}, {COMPRESSION_ZSTD:#x} or {COMPRESSION_ZLIB:#x}"
        return f"the compression {kind:#x} is unknown: use {known}"
    if flags & (INNER_BATCH | NEED_UNWRAP):
        bits = f"{INNER_BATCH:#x}, {NEED_UNWRAP:#x}"
        return f"it says that the message holds other messages ({bits}): send a batch with its own request"
    return ""
