"""Parts of `predict.py`, which is shipped with a final model: raw input in, answer in the user's terms out.

Each imports numpy and ONNX Runtime (pillow for pictures, tokenizers for texts) and nothing of ours but other parts,
and the modules that read inputs for training: `assembly.py` puts them into one file.
"""
