"""Robots that take part in a copy of a study, by function calls or in a browser."""
