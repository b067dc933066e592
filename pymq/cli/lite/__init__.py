"""``pymq lite``: lists and describes lite topics, and shows the lag of their groups."""
