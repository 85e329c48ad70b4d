"""Load models, which map stimuli to class scores, from names, files or objects; add defenses.

The evaluation loop and the mapping of labels are not part of this package.
"""
