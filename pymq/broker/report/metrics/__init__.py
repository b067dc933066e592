"""A broker's figures for Prometheus, read at each scrape from what its parts keep anyway. No part knows of it."""
