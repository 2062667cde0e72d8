"""Tools for the checkout: notebooks, exercises, pages, benches. They are not installed with the package."""
