"""Visual change Δv: the `Ruler` protocol (`ruler.py`), rulers by name (`registry.py`), VIF (`vif`).

A ruler does not know which corruption was applied.
"""
