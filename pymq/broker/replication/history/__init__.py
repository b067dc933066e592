"""What a log says of its past: epochs, its end, and a proof of its bytes."""
