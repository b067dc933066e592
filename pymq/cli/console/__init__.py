"""``pymq console``: pages about clusters for people."""
