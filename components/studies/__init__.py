"""Studies: ablations as data, run with several seeds, resumable, and compared only where they can be compared."""
