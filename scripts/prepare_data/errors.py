"""The error that ends the program with exit code 2."""


class InputError(Exception):
    """Bad usage or bad input: the place (file:line), what was found, what would be right."""
