"""The data gate of texts."""
