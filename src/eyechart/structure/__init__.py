"""Studies of held-out styles, subclasses and superclasses; `icons` builds the dataset of icons.

The training and prediction loops come from the packages `training` and `predictions`.
"""
