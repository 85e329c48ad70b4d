"""Shared infrastructure: errors, storage, progress, randomness and devices.

Nothing here depends on corruptions, models or scores.
"""
