"""The gate of token features."""
