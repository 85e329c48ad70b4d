"""results.json and its companion files, comparison of finished runs, and published results.

Records are declared in `schema`. Other packages compute the scores and draw them.
"""
