"""Load generator and measurements: the same raw frames against PyMQ or an Apache RocketMQ broker."""
