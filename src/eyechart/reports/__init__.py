"""Reports: contents as data (`series`), renderers `html`, `figures`, `terminal`, `browse`.

No score is computed here; the contents are decided once, in `series`.
"""
