"""Every score declared once (`registry.py`), and the formulas: numbers in, numbers out.

Results and other files are not read here.
"""
