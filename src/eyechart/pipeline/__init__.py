"""`evaluate`: from settings to results, by the steps of the other packages.

Nothing that another package can do.
"""
