"""``pymq dlq``: lists, shows, sends again, exports and deletes dead letters."""
