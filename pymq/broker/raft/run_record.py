"""RunRecord: what must be known of a node's last run to say whether its log may have lost acknowledged bytes."""

from __future__ import annotations

from pymq.broker.raft.founding import LastStop, why_lost
from pymq.broker.raft.node_directory import RUN_RECORD_FILE
from pymq.store.disk.fs import Files, make_directory, put_file

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"  # Linux; another one after each start of the machine
_SYNCED, _WRITTEN, _LOST = "synced", "written", "lost"


class RunRecord:
    """The file ``config/raftRun`` of the broker directory ``root``: the machine's boot id, and when bytes counted."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._directory = f"{root}/config"
        self._path = f"{self._directory}/{RUN_RECORD_FILE}"

    @property
    def is_same_boot(self) -> bool:
        """True when the machine has not been off since the last run began. Raises OSError."""
        boot_id = self._boot_id()
        return bool(boot_id) and self._load()[:1] == [boot_id]

    def note_lost(self, _: str) -> None:
        """Note that the disk has lost what it had called synced, before the log ends there. Raises OSError."""
        if words := self._load():
            self._save([*words[:2], _LOST])

    def why_lost(self, *, was_clean: bool) -> str:
        """Return why the log may lack what this node has acknowledged; empty when it does not. Raises OSError.

        The same comes again until :meth:`begin`.
        """
        words = self._load()
        stop = LastStop(
            was_clean=was_clean,
            was_synced=words[1:2] == [_SYNCED],
            is_same_boot=self.is_same_boot,
            has_lost=words[2:] == [_LOST],
        )
        return why_lost(stop) if words else ""

    def begin(self, *, is_synced: bool) -> None:
        """Record this run. ``is_synced``: the node acknowledges what its disk has (SYNC_FLUSH). Raises OSError."""
        self._save([self._boot_id() or "unknown", _SYNCED if is_synced else _WRITTEN])

    def _boot_id(self) -> str:
        try:
            return self._files.read_bytes(BOOT_ID_PATH).decode().strip()
        except OSError:
            return ""

    def _load(self) -> list[str]:
        try:
            return self._files.read_bytes(self._path).decode(errors="replace").split()
        except FileNotFoundError:
            return []

    def _save(self, words: list[str]) -> None:
        make_directory(self._files, self._directory)
        put_file(self._files, self._path, f"{' '.join(words)}\n".encode())
        self._files.sync_dir(self._directory)
