"""Makes queue units and index keys from records that are already in the commit log."""
