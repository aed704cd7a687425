"""Precision, recomputation, compilation and memory layout: the same training, faster or in less memory."""
