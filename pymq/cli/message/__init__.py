"""``pymq message``: finds, traces, takes back and sends messages again."""
