"""``pymq bench``: measures sends, pulls and latency."""
