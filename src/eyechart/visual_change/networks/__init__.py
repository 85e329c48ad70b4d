"""Rulers that compare features of networks: LPIPS, ST-LPIPS and DISTS (`network_rulers.py`).

The networks are written here (`backbones.py`); their weights come from published packages
(`packages.py`), are read without running code of these packages, and kept in the user's cache
(`weights.py`).
"""
