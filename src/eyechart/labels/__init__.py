"""Label spaces and the rules between them.

No images and no models.
"""
