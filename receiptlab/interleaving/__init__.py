"""Every interleaving of the statements of two or three callers."""
