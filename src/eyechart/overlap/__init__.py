"""Overlap of corruptions: studies, calibration, and selection and coverage of benchmarks.

The training and prediction loops come from the packages `training` and `predictions`.
"""
