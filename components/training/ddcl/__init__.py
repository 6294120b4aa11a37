"""Training of the DDCL-Attention family."""
