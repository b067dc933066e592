"""What the name server does for each kind of peer: clients look up, brokers report, consoles administer."""
