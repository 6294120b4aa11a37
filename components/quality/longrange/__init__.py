"""The gate of long sequences."""
