"""The filter server: runs plugin filters between a broker and its consumers, in processes of its own."""
