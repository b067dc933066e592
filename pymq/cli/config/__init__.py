"""``pymq config``: shows, compares, changes and checks the settings of brokers and name servers."""
