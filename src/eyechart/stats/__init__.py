"""Bootstrap resampling, estimates with confidence intervals, p-values, ranks and Cohen's κ.

No files, models or labels.
"""
