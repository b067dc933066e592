"""The command `pymq` with a proxy whose receipts last 15 s instead of 60: a test of slow listeners takes less long."""

from __future__ import annotations

from pymq.cli.main import main
from pymq.proxy import receipts, receiving

RECEIPT_MS = 15_000  # renewed 10 s before its end, as always


if __name__ == "__main__":
    vars(receiving)["AUTO_RENEW_INVISIBLE_MS"] = RECEIPT_MS
    vars(receipts)["RENEW_STEPS_MS"] = (RECEIPT_MS,)
    main()
