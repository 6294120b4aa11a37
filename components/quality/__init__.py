"""Gates: checks that refuse what must not go further, and say where and why."""
