"""A simulated disk: power cuts and I/O errors."""
