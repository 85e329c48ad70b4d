"""Visual change Δv: the `Ruler` protocol (`ruler.py`), rulers by name (`registry.py`), VIF (`vif`).

A ruler is not told which corruption was applied.
"""
