"""The remoting protocol without I/O: bytes in, commands out; commands in, bytes out."""
