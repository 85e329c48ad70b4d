"""The prediction loop (corrupt, measure, predict, record) and the engines that run it.

Scores are computed in other packages.
"""
