"""What an error of the disk means for a store, and what operators read about it."""

from __future__ import annotations

import errno

from pymq.errors import StoreUnavailableError


def lacked_handles(error: OSError) -> bool:
    """True when no file descriptor was left to open a file. The disk did not fail, so trying again is safe."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def lacked_room(error: OSError) -> bool:
    """True when the disk, the quota or the limit of a file's size left no room. Nothing on the disk is damaged."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def no_handles_error(path: str, error: OSError) -> StoreUnavailableError:
    """Return the error of a sync that could not open its file."""
    return StoreUnavailableError(
        f"{error.filename or path} can't be opened for a sync: {error.strerror} (errno {error.errno}); raise the "
        f"limit of open files or close connections, the next sync tries again"
    )


def failed_sync_text(what: str, error: OSError) -> str:
    """Return why a store is read-only after it failed to sync ``what``.

    The system may have dropped the pages it could not write, and the next fsync may still succeed. So a second try
    proves nothing. Recovery at the next start reads what is on the disk.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        next_step = "make room on the disk, then restart the broker"
    else:
        next_step = "check the disk, then restart the broker, or rebuild it on another one (pymq store recover)"
    return (
        f"fsync of {what} failed: {error.strerror} (errno {error.errno}): written bytes may be lost, so the "
        f"store is read-only until the broker is restarted: {next_step}"
    )
