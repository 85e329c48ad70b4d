"""Bins, monotone curves over visual change Δv, areas and their bounds.

No plots; a curve does not know which model or which humans it belongs to.
"""
