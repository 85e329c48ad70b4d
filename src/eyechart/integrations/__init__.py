"""Connections to other tools: transforms for training, experiment loggers, and a pytest plugin.

Nothing else in the package needs these modules.
"""
