"""From a test set to a study that can be served: stimuli, plan, budget, folder and database rows.

What happens once participants come is in `server`.
"""
