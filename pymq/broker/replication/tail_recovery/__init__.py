"""Tail recovery: after an unclean stop a master gets the end of its log back from its slaves."""
