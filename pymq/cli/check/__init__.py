"""``pymq check``: one question to a cluster for monitoring, with Nagios' exit codes and performance data."""
