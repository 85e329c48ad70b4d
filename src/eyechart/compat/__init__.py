"""Interfaces of other packages, so that code written for them runs after changing one import."""
