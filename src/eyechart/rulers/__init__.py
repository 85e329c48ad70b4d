"""The study of rulers against human data: conditions, agreement, fits, and the records it writes.

Rulers themselves are in `visual_change`; figures and tables of the study are in `reports`.
"""
