"""The broker: one message store with topics, groups, cursors and clients, and one table of requests."""
