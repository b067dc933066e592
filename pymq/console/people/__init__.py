"""Who uses the console: log-in, sessions, and the audit of changes."""
