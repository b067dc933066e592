"""Questions to a cluster for monitoring. :mod:`line` knows Nagios' form; the other modules ask the cluster."""
