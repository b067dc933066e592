"""Puts a broker together: its parts by name, its sides of replication, its handlers, its start and stop."""
