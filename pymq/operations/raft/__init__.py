"""Groups of brokers that elect their leader themselves: their views, changes of their members, and shards."""
