"""From samples over Δv to bins, monotone curves, areas and their bounds.

No plots; a curve does not know whose it is.
"""
