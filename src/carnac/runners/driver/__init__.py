"""The program of drivers."""
