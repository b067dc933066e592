"""A slave's side: how it finds, joins and follows its master, copies tables, and which requests it serves."""
