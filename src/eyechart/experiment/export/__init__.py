"""Export what a study has collected, and report its status; metrics are computed elsewhere."""
