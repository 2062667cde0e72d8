"""Work claims on intake: each accepted revision is processed once."""
