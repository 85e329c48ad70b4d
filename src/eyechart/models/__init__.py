"""Load models, which map stimuli to class scores, from a name, a file or an object; defenses.

The evaluation loop and the mapping of labels are not part of this package.
"""
