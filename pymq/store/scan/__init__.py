"""Walks the commit log record by record, or thousands of records at a time with numpy."""
