"""The source of ``format("pymq")``: options, pushdown, streams, and where rows come from."""
