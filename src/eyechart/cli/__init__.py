"""The `eyechart` command: parse, call the package, print; one file per command.

No logic: what a command does can be called from Python.
"""
