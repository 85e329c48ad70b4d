"""Simulated participants ("robots") in a copy of a study, by function calls or in a browser."""
