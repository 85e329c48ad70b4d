"""results.json (`schema.py`), its files, finished runs side by side, published results.

No scores are computed and nothing is drawn.
"""
