"""The mark of a directory that is being rebuilt from another broker: until that is done, no broker may start there.

Recovery would truncate an incomplete log at its first hole, and serve the rest as if it were complete.
"""

from __future__ import annotations

from pymq.errors import StoreError
from pymq.store.disk.fs import Files

UNFINISHED_FILE = "recovering.json"


def unfinished_path(root: str) -> str:
    """Return the path of the directory's mark, whether it exists or not."""
    return f"{root}/{UNFINISHED_FILE}"


def refuse_unfinished(files: Files, root: str) -> None:
    """Raise StoreError when rebuilding the directory from another broker did not finish."""
    path = unfinished_path(root)
    if files.exists(path):
        raise StoreError(
            f"{path} says that this directory is only half rebuilt: run `pymq store recover` again, it continues where "
            f"it stopped; or remove that file to start with what is there"
        )


def mark_unfinished(files: Files, root: str, text: bytes) -> None:
    """Keep brokers from starting here. The mark is on the disk on return. Raises OSError."""
    file = files.open(unfinished_path(root), create=True)
    try:
        file.truncate(0)
        file.pwrite(0, text)
        file.sync()
    finally:
        file.close()
    files.sync_dir(root)


def mark_finished(files: Files, root: str) -> None:
    """Remove the mark: the directory is complete. Raises OSError."""
    if files.exists(unfinished_path(root)):
        files.remove(unfinished_path(root))
        files.sync_dir(root)
