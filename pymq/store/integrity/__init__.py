"""Digests over the log: made behind its end, compared on every read, and what damage they find."""
