"""Workers: the brokers of one machine, a process each, and the small process that keeps them running."""
