"""Request handlers by subject. Each class takes the parts it needs and lists its rows of the dispatch table."""
