"""A worker without asyncio: takes one job at a time, and says when it is done.

A job whose worker dies comes again after INVISIBLE_MS, here or at another worker; any number of them may run.

    python sync_worker.py
    pymq send Jobs 'resize cat.png'
"""

import os
import signal
import time

from pymq.client.sync import SimpleConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
INVISIBLE_MS = 30_000
stopping = False


def stop(*_: object) -> None:
    """Take no further job."""
    global stopping
    stopping = True


def work(job: str) -> None:
    """Do one job."""
    time.sleep(0.01)
    print(f"done: {job}", flush=True)


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with SimpleConsumer("workers", namesrv=NAMESRV) as consumer:
        while not stopping:
            for received in consumer.receive("Jobs", 1, invisible_ms=INVISIBLE_MS, wait_ms=1000):
                try:
                    work(received.content().decode())
                except Exception as error:
                    print(f"failed: {error}", flush=True)
                else:
                    consumer.ack(received)


if __name__ == "__main__":
    main()
