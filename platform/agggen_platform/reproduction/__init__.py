"""Reproduces the paper's tables: published scores and agggen's, from run records or new trainings."""
