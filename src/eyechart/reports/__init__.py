"""What is drawn, as data (`series`), and its renderers `html`, `figures`, `terminal`, `browse`.

No score is computed here, and what is shown is decided once, in `series`.
"""
