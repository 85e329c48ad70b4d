"""Test sets: the plan, sampling, the manifest, coverage, and published files.

Predictions live elsewhere.
"""
