"""Counts of what a broker did, by topic, group and queue, and of what filters let through."""
