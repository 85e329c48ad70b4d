"""The training loop: training on corruptions, retraining, style transfer, enhancements.

Networks are evaluated by `pipeline`; no scores are computed here.
"""
