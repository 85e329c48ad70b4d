"""The only prediction loop (corrupt, measure, predict, record) and the engines that run it.

No metrics.
"""
