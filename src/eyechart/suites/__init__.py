"""Suites as data: which corruptions at which strengths; how they are applied; published layouts.

No corruption is defined here.
"""
