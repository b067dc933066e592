"""Consume queues: 20-byte units that point into the commit log."""
