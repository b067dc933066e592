"""The directory of divergent tails, ``divergent/``; earlier versions called it ``diverged/``."""

from __future__ import annotations

from pymq.store.disk.fs import Files, make_directory

DIVERGENT_DIRECTORY = "divergent"
FORMER_DIRECTORY = "diverged"


def adopt_former_directory(files: Files, root: str) -> None:
    """Move the files of the former directory to the new one, then remove it. The broker's directory must be locked.

    A crash leaves each file in one of the two; the next call moves the rest. Raises OSError.
    """
    former, directory = f"{root}/{FORMER_DIRECTORY}", f"{root}/{DIVERGENT_DIRECTORY}"
    if not files.is_dir(former):
        return
    make_directory(files, directory)
    for name in files.listdir(former):
        files.replace(f"{former}/{name}", f"{directory}/{name}")
    files.sync_dir(directory)
    files.remove_tree(former)
    files.sync_dir(root)
