"""Which corruptions measure the same thing: studies, calibration, selection, coverage.

Training and prediction loops are those of `training` and `predictions`.
"""
