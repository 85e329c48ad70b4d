"""Quality rules, which decide whose responses count; nothing is deleted."""
