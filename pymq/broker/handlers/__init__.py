"""Request handlers by subject. Each class takes the parts it needs; ``broker/routes.py`` is the table of requests."""
