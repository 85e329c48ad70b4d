"""Find, decode and identify images; the stimulus; the image types that users pass in.

Corruptions and model normalization are not part of this package.
"""
