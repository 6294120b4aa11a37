"""The orbital catalogue: satellite catalogues and element sets, read strictly into one table."""
