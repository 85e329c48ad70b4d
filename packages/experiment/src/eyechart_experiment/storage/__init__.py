"""Store and read a study: its folder, its database, and its secrets.

The package `server` decides which trial comes next, and `quality` decides whose responses count.
"""
