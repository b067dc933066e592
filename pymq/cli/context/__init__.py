"""``pymq context``: names clusters, and chooses the current one."""
