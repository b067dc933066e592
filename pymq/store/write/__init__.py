"""The write path: stages messages, encodes them, and commits one turn's worth at once."""
