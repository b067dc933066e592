"""An export's output as a table of an open format: the library that owns the format keeps its log."""
