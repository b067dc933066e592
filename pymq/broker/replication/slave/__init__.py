"""A slave's side: finding, joining and following its master, its copies of tables, what it serves."""
