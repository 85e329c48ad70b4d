"""Δv: the `Ruler` protocol (`ruler.py`), the rulers by name (`registry.py`), VIF (`vif`).

A ruler does not know which corruption was applied.
"""
