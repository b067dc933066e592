"""``pymq doctor``: looks at a whole cluster once, and names what is wrong with the next step."""
