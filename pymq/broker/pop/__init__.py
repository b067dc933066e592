"""Pop consumption: the broker hands messages out and gets them back by acknowledgement or time."""
