"""Suites of corruptions with their strengths, their application to images, and published layouts.

The corruption functions themselves are defined in `corruptions`.
"""
