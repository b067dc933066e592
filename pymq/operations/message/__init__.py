"""Messages: found by id, traced, sent again, and their bodies decoded."""
