"""Users and their rules on brokers, and why a user may do something."""
