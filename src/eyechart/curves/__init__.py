"""Bins, monotone curves over visual change Δv, areas and their bounds.

Nothing is plotted here, and a curve does not record which model or humans it describes.
"""
