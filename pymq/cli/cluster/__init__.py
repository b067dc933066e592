"""``pymq cluster``: brokers, shards and clients of whole clusters."""
