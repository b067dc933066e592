"""The ``pymq`` command: one module per command, imported when that command is called."""
