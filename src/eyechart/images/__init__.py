"""Find, decode and identify images; convert them to stimuli and between the accepted image types.

Corruptions and model normalization are not part of this package.
"""
