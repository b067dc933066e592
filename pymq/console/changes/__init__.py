"""Changes in two steps: a plan that says what would change, and then, by its own number, the change."""
