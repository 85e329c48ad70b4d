"""Shared infrastructure: errors, files, folders, jobs, progress, randomness and devices.

Nothing here depends on corruptions, models or scores.
"""
