"""``pymq broker``: runs a broker, and works on running brokers."""
