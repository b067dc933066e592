"""``pymq stats``: what went in and out in the last minute, hour and day, as brokers count it."""
