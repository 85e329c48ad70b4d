"""Backups of a study that is in use, and their restoration."""
