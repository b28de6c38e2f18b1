"""The reference pages of the command line, the Python API and the settings, made from the code itself."""
