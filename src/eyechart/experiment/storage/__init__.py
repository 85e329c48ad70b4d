"""Storage of a study: its folder, its database with migrations, its secrets, and reading them.

`server` decides which trial comes next, and `quality` whose responses count.
"""
