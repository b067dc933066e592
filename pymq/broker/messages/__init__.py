"""A message's way into the store and out of it: writer, reader, retries, delays, long polls."""
