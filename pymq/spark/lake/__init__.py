"""An export's output directory: its commits, its files, and reading them, alone or before a broker's messages."""
