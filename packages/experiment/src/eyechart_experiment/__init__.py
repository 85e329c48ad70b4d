"""Experiments with human participants, from a test set to their responses.

The subpackages build on each other in this order, which the import linter enforces: `recruiters`
and `languages` (the texts that participants read), `study_config`, `storage`, `design`, `quality`
and `payments`, `server`, then `backup`, `export` and `simulate`, and `cli`.
"""
