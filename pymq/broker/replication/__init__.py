"""Master and slaves: who is which, how the log and the tables reach a slave. See docs/replication.md."""
