"""Human responses: importers, human references and combinations of them, similarity, transfer.

Curves are fitted by the package `curves`.
"""
