"""Failures made on purpose. Each module says what its failures prove and what they do not."""
