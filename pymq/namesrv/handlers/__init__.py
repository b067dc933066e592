"""The name server's answers for each kind of peer: clients look up, brokers report, consoles administer."""
