"""Shared infrastructure: errors, files, folders, jobs, progress, randomness and devices.

Nothing here knows about corruptions, models or scores.
"""
