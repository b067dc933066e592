"""Records as columns: their fields, properties and bodies, all rows of a chunk at once. Knows no broker and no file."""
