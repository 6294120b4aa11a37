"""The data gate of orbital tables."""
