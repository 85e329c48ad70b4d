"""Training on corruptions, retraining, training of style transfer, and enhancements.

Networks are evaluated by `pipeline`; no scores are computed in this package.
"""
