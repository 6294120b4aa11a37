"""The data gate of images."""
