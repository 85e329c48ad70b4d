"""Reports: contents as data (`series`), and renderers (`html`, `figures`, `terminal`, `browse`).

No score is computed here. `series` decides the contents once for all renderers.
"""
