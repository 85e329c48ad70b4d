"""The one resampler, estimates with intervals, corrections, ranks, κ.

No files, models or labels.
"""
