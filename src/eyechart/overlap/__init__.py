"""Overlap of corruptions: studies, calibration, selection and coverage of benchmarks.

Training and prediction loops are those of `training` and `predictions`.
"""
