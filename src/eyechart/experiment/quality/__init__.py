"""Whose responses count: the rules of each version and how they are applied; nothing is deleted."""
