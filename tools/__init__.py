"""Tools of the checkout: setting up, notebooks, pages. They are not installed with the package."""
