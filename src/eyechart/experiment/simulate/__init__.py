"""Simulated participants ("robots"), who do a copy of a study by function calls or in a browser."""
