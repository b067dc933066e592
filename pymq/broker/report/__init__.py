"""What a broker reports: statistics, registration at name servers, runtime figures, Prometheus metrics."""
