"""Ablation studies: what each part of a configuration is worth, over repeated seeds, with intervals."""
