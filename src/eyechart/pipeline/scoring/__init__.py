"""From recorded predictions to the records of results.json.

Formulas are in `scores`, `curves` and `stats`.
"""
