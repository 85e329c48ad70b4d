"""Bootstrap resampling, estimates with confidence intervals, p-values, ranks and Cohen's κ.

Nothing here depends on files, models or labels.
"""
