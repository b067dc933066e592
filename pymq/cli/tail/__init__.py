"""``pymq tail``: what to read (sources, selection), from where to where, and how messages are shown."""
