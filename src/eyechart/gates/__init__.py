"""The gate: rules for releasing a model, the evidence from finished runs, and the outcome.

The gate reads run folders that `eyechart evaluate` wrote. The package `reports` writes its tables,
Markdown and evidence page.
"""
