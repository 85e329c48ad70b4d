"""The `eyechart` command: parse, call the package, print; one file per command.

Commands contain no logic: everything that a command does can also be called from Python.
"""
