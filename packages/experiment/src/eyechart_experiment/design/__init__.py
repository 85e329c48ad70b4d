"""Turn a test set into a study that can be served: stimuli, plan, budget, folder, database rows.

The `server` package handles everything that happens once participants arrive.
"""
