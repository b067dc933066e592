"""Settings of brokers and name servers: read, compared, changed, and checked as a file."""
