"""Score formulas (numbers in, numbers out), and the registry that declares every score once.

Nothing here reads results or other files; `pipeline` does.
"""
