"""results.json (`schema.py`) and its files, comparison of finished runs, published results.

No scores are computed and nothing is drawn here.
"""
