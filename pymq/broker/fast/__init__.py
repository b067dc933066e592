"""Fast paths for the commonest sends and pulls. Each gives the same bytes as the plain path."""
