"""``pymq pipeline``."""
