"""The experiment with human participants, from a test set to their responses.

Its packages build on each other, checked by the import linter: recruiters and `study_config`,
`storage`, `design`, `quality`, `server`, then `export` and `simulate`.
"""
