"""Reads one range of a queue as record batches, from a broker or from files."""
