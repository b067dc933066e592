"""The rules of every request and answer, whatever page it is for: nothing here knows a cluster."""
