"""Failures on purpose. Each module says what its failures prove, and what they don't."""
