"""Timer messages: taken from sends, kept in the wheel, delivered when they are due."""
