"""The gate: rules for releasing a model, the evidence from finished runs, and the outcome.

Reads what `eyechart evaluate` wrote; tables, Markdown and the evidence page are in `reports`.
"""
