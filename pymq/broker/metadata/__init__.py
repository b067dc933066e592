"""What a broker knows: topics, groups, consumer offsets, clients, leases; persisted in config/*.json."""
