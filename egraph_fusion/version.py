"""The version of the package, as pyproject.toml states it; compiled files carry it."""

__version__ = "0.1.0"
