"""The names of the label spaces; imports nothing slow, because the command line lists them."""

NATIVE, ENTRY16, NO_LABELS = "native", "entry16", "none"
"""Label spaces: the dataset's classes, the 16 categories of human experiments, or no labels."""

SPACES = (NATIVE, ENTRY16, NO_LABELS)
SCORED_SPACES = (NATIVE, ENTRY16)
"""The label spaces that are scored, in the order in which they are tried."""
