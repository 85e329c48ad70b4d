"""Simulated participants ("robots") that take part in a copy of a study, by calls or in a browser."""
