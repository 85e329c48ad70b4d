"""Suites as data: which corruptions at which strengths; applying them; published layouts.

No corruption is defined here.
"""
