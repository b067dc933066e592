"""The last hour of a cluster, in memory: samples, rings of points, and charts of them."""
