"""Replication: how a master's log and tables reach its slaves, and how a slave becomes the master.

docs/replication.md is the guide. The packages are ``roles`` (which broker is the master), ``master`` and ``slave`` (the
two sides), and ``tail_recovery`` (a master's log after an unclean stop). The modules here serve all of them: the epoch
history of a log, the replicated tables, and the status.
"""
