"""``pymq group``: consumer groups, their members and their lag."""
