"""Topics: lists, changes, plans of shrinking, expanding and deleting, and order configurations."""
