"""Quality rules by version: they decide whose responses count; nothing is deleted."""
