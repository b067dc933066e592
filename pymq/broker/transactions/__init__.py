"""Transactions: half messages, how they end, and questions to producers that have not ended them."""
