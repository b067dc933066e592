"""The way of messages into the store and out of it: writer, reader, retries, delays, long polls."""
