"""The names of the label spaces. Nothing slow is imported here: the command line lists them."""

NATIVE, ENTRY16, NO_LABELS = "native", "entry16", "none"
"""The data set's own classes, the 16 categories of humans, or no labels at all."""

SPACES = (NATIVE, ENTRY16, NO_LABELS)
SCORED_SPACES = (NATIVE, ENTRY16)
"""Those in which there are scores, in the order in which they are looked for."""
