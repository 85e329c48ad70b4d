"""From models and images to scores: settings, preparation, prediction, scoring and checks.

Formulas are in `scores`, `curves` and `stats`.
"""
