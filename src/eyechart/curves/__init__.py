"""Bins, monotone curves over visual change Δv, areas and their bounds.

No plots; curves are independent of the model or the humans that they describe.
"""
