"""What several nouns share: options, the admin session, contexts, servers, and texts of messages and table cells."""
