"""The broker: topics, groups, cursors and clients around one message store, answering one table of requests."""
