"""Test sets: the plan, sampling, the manifest, coverage, and published files.

Predictions are not part of this package.
"""
