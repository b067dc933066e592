"""``pymq filter``: lists message filters, and tries expressions."""
