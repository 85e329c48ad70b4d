"""Label spaces and the rules that map between them.

No images and no models.
"""
