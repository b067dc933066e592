"""``pymq send``: sends messages."""
