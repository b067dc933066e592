"""The mark of a directory that is being rebuilt from another broker: until it is whole, no broker may start there.

A log that lacks its end or has holes would be cut where the first one begins, and served as if it were all there is.
"""

from __future__ import annotations

from pymq.errors import StoreError
from pymq.store.disk.fs import Files

UNFINISHED_FILE = "recovering.json"


def unfinished_path(root: str) -> str:
    """Where the mark of the directory is, or would be."""
    return f"{root}/{UNFINISHED_FILE}"


def refuse_unfinished(files: Files, root: str) -> None:
    """Raises StoreError when the directory's recovery from another broker did not come to its end."""
    path = unfinished_path(root)
    if files.exists(path):
        raise StoreError(
            f"{path} says that this directory is only half rebuilt: run `pymq store recover` again, it goes on where "
            f"it stopped; or remove that file to start with what is there"
        )


def mark_unfinished(files: Files, root: str, text: bytes) -> None:
    """From now on no broker starts here; on the disk when it returns. Raises OSError."""
    file = files.open(unfinished_path(root), create=True)
    try:
        file.truncate(0)
        file.pwrite(0, text)
        file.sync()
    finally:
        file.close()
    files.sync_dir(root)


def mark_finished(files: Files, root: str) -> None:
    """The directory is whole. Raises OSError."""
    if files.exists(unfinished_path(root)):
        files.remove(unfinished_path(root))
        files.sync_dir(root)
