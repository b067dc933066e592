"""Consumer groups: lists, members, lag and changes."""
