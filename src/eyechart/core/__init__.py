"""Errors, files, folders, jobs, progress, randomness, devices: what every package needs.

No maths of the domain.
"""
