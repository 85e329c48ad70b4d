"""Whose responses count: the rules of each version and their application; nothing is deleted."""
