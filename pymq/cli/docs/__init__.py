"""``pymq docs``: the pages of the documentation in the terminal."""
