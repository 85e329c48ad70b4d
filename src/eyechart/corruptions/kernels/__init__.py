"""What corruptions compute with: filters, resampling, codecs, and faster kernels of the same."""
