"""Monotone curves over visual change Δv, their areas and bounds; resampling, estimates and tests.

Numbers in, numbers out: nothing here reads files or knows which model or humans it describes.
"""
