"""The real graph at scale tiny, in fresh copies of the checkout."""
