"""The long checks: many kills, many corruptions, many requests, many examples, two whole runs. See `make soak`."""
