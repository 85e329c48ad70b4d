"""Human responses: importers, human references and combinations of them, similarity, transfer.

The fitting of curves is in the package `curves`.
"""
