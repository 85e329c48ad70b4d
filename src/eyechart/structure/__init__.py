"""Held-out styles, subclasses and superclasses; `icons` builds the dataset of icons.

Training and prediction loops are those of `training` and `predictions`.
"""
