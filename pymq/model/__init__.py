"""Plain values that every layer shares: messages, stored records, ids, names, tables. No I/O, no clock."""
