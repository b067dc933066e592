"""Lets ``python -m pymq`` do what the ``pymq`` command does."""

from pymq.cli.main import main

if __name__ == "__main__":
    main()
