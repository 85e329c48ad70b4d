"""Building blocks of the corruptions: filters, resampling, codecs, and faster GPU kernels."""
