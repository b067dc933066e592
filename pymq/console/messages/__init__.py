"""Pages about messages: one, found ones, traces, dead letters, and a tail. They read, and commit nothing."""
