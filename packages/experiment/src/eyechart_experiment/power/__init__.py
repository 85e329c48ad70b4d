"""What a planned study can show, computed from simulated participants before there are data."""
