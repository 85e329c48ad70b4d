"""Human responses: import, human references, and transfer between similar corruptions.

Curves are fitted by the package `curves`.
"""
