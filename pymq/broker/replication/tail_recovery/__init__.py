"""A log's end after an unclean stop: whether it is whole, and how a master gets it back from its slaves."""
