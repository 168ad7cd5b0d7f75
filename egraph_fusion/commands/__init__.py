"""Commands of the command line: a module for each group, each a shell around the Python API."""
