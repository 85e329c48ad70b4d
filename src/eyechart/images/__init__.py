"""Finding, decoding and identifying images; the stimulus; the kinds of image users hold.

No corruption, and no normalisation of a model.
"""
