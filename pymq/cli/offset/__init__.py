"""``pymq offset``: shows where consumer groups are, and moves them."""
