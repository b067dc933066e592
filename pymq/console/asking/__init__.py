"""A person's questions to a cluster: few connections, the same question once, and all signed by the person."""
