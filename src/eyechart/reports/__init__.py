"""What is drawn, as data (`series`), and what draws it: `html`, `figures`, `terminal`, `browse`.

Nothing new is computed here, and nothing chosen twice.
"""
