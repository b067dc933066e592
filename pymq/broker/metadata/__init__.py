"""A broker's metadata: topics, groups, consumer offsets, clients, leases. Tables are saved in ``config/*.json``."""
