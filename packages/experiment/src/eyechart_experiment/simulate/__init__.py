"""Simulated participants ("robots") that take part in a copy of a study."""
