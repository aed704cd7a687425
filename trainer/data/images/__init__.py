"""Pictures: found in folders, tables and archives, decoded one by one, changed at random for training."""
