"""The tables that slaves copy: whole, in pieces, or what changed."""
