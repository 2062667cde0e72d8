"""Real processes that die or are killed."""
