"""Light queues: the queues of lite topics, of which there may be a million."""
