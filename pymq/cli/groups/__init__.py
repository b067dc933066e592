"""The commands of ``pymq group``, apart from listings: changes, members, lag."""
