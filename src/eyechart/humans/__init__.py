"""Human responses: importers, references and how several combine, similarity and transfer.

Nothing is fitted here.
"""
