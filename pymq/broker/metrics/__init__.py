"""A broker's figures for Prometheus. Each scrape reads them from the broker's parts, which know nothing of it."""
