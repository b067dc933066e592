"""``pymq proxy``: serves gRPC clients."""
