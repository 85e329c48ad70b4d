"""The `eyechart` command; each file parses one command's options and prints its results.

Commands contain no logic: everything that a command does can also be called from Python.
"""
