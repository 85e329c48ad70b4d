"""The one training loop: training on corruptions, retraining, style transfer, enhancements.

No scores of its own: networks are evaluated by `pipeline`.
"""
