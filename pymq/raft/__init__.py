"""Raft over a log of bytes: the rules of a broker group that elects its own leader, without I/O, time or threads."""
