"""A user's own data: from a path to a catalogue entry and a configuration, without code."""
