"""Watchdog: ends a JVM whose program has died, however the program died.

The JVM ends by itself when its standard input ends. One that hangs does not: while it fetches packages from a server
that is silent, or in a shutdown that waits for something. So a shell waits for the program's end, gives the JVM time,
and kills it.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress

GRACE_S = 20
# $1: the JVM's process id, $2: the time. While the JVM runs, its id can't be that of another process.
_SCRIPT = """\
cat > /dev/null
left=$2
while kill -0 "$1" 2> /dev/null; do
    [ "$left" -gt 0 ] || { kill -9 "$1"; exit; }
    left=$((left - 1))
    sleep 1
done
"""


class Watchdog:
    """Watches one process. Its own process is a shell, which ends with :meth:`close` or after it has killed."""

    def __init__(self, pid: int, grace_s: int = GRACE_S) -> None:
        # In a session of its own, so that a closed terminal does not end it before its work.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "pymq-spark-watchdog", str(pid), str(grace_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """Watch no more. Call it when the watched process has ended."""
        assert self._process.stdin is not None
        self._process.kill()
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
