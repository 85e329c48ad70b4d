"""Registration: how a corrupted image was moved, turned, scaled, sheared or mirrored.

`search` finds a rough map, `refinement` improves it, `estimate` combines both and decides whether
the map is a change of geometry at all. `view` moves the clean image like the corrupted one, and
`visible` measures VIF between them. `warping` contains the operations on batches.
"""
