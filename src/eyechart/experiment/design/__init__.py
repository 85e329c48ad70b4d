"""Turn a test set into a study that can be served: stimuli, plan, budget, folder, database rows.

Everything that happens once participants arrive is in `server`.
"""
