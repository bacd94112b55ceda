"""The audit of a causal language model: its head, its log Z on texts, what estimates of it leave, and what skipping it could gain."""
