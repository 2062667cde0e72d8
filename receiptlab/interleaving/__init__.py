"""Every order of the statements of two or three callers."""
