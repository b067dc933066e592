"""``pymq store``: works on the data directory of a stopped broker."""
