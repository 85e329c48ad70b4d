"""Suites of corruptions with their strengths, their application to images, published layouts.

The corruption functions themselves are defined in `corruptions`.
"""
