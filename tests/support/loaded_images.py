"""A dataset of numbered images with a transform, which workers import when they are spawned."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class LoadedImages(Dataset):
    """Color images of noise, 16 × 16 px, and their index."""

    def __init__(self, transform, count=12):
        self.images = torch.from_numpy(
            np.random.default_rng(3).integers(0, 256, (count, 3, 16, 16), dtype=np.uint8)
        )
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index]), index


def load_epochs(transform, workers, start, epochs=3):
    """Return the images of each epoch in the order of the dataset, loaded in a random order."""
    dataset = LoadedImages(transform)
    loader = DataLoader(
        dataset,
        batch_size=2,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context=start if workers else None,
        persistent_workers=workers > 0,
    )
    loaded = []
    for epoch in range(epochs):
        transform.set_epoch(epoch)
        images = torch.empty_like(dataset.images)
        for batch, indices in loader:
            images[indices] = batch
        loaded.append(images)
    return loaded
