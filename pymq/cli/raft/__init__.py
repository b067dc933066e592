"""``pymq raft``: groups of brokers that elect their leader themselves."""
