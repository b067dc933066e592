"""``pymq topic``: lists, creates, changes, deletes and inspects topics."""
