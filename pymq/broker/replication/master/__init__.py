"""A master's side: which slaves may follow, what they are sent, and how many a send waits for."""
