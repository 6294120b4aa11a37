"""Text to be modelled as a stream of tokens."""
