"""The data gate of streams of tokens."""
