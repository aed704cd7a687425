"""Checkpoints: safetensors and JSON, written so that a crash at any instant leaves the previous one intact."""
