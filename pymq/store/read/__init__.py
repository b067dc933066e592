"""The read path: from a queue offset to slices of the commit log."""
