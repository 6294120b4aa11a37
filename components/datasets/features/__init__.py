"""Token features: what a frozen encoder makes of each token of a text, computed once and kept on disk."""
