"""The gRPC protocol: messaging.proto is its definition, and :mod:`pymq.proxy.protocol.messages` has the classes."""
