"""The key index: finds messages by unique key or key word."""
