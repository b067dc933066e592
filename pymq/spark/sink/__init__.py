"""The sink of ``format("pymq")``: rows become messages."""
