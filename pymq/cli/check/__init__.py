"""``pymq check``: one question to a cluster for monitoring, with Nagios' exit codes and one line with performance data.

:mod:`line` knows Nagios' form; :mod:`figures` and :mod:`replica` ask the cluster.
"""
