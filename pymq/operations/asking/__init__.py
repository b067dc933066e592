"""How a process asks a cluster for months: again after a while, within a deadline, once, and some at a time."""
