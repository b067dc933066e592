"""Master and slaves: who is which, how the log and the tables reach a slave. See docs/replication.md.

``roles``, ``master``, ``slave`` and ``lost_tail`` (a master's log after an unclean stop) say what they hold. Here is
what all of them go by: which master wrote which part of a log, the tables that are copied, and what is told of it all.
"""
