"""The bound on epochs that brokers and name servers take from peers."""

from __future__ import annotations

# How far an epoch that a peer names may lie beyond the newest known one. Each promotion begins the next epoch, so a
# larger step is no lost promotion but a wrong number, which would keep every later master of the group out.
EPOCH_JUMP_MAX = 1_000
