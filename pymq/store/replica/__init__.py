"""A log that grows by bytes from another broker, and what is truncated from it."""
