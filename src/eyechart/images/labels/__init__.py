"""Label spaces and the rules that map between them.

This package does not handle images or models.
"""
