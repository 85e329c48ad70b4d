"""The gate: rules for releasing a model, what finished runs say about them, and the outcome.

Reads what `eyechart evaluate` wrote; tables, Markdown and the evidence page are in `reports`.
"""
