"""An experiment on a real database file: the calls, what each answered, and what the file held."""
