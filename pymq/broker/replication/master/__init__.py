"""A master's side: which slaves may join, what they are sent, and how many slaves a send waits for."""
