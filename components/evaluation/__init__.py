"""How good a model is, and beside what: metrics, baselines on the same split, plots. Plain arrays in, no torch."""
