"""Prepared folders as batches for training: memory-mapped, in a deterministic order, with padding and masks."""
