"""HTTP/2 as a server speaks it: frames, header fields, streams and their windows. No I/O, and nothing of gRPC."""
