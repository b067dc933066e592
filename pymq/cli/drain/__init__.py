"""``pymq broker drain`` and ``undrain``: take a broker out of service for producers, and back."""
