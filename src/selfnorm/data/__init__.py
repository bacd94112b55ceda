"""Data: text files to tokens, tokens to ids, ids to windows."""
