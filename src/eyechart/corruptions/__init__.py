"""Corruption functions for batches of images, one file per family, and the suites that use them."""
