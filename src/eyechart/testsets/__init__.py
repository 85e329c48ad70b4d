"""What is shown to models: the plan, sampling, the manifest, coverage, published files.

No predictions.
"""
