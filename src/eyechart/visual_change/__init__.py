"""Visual change Δv: the `Ruler` protocol (`ruler.py`), rulers by name (`registry.py`), their code.

A ruler does not know which corruption was applied.
"""
