"""Export to ONNX: a graph with explicit state and free batch and time axes, built by hand.

It takes words and candidate words and never multiplies by the whole output table. torch's exporters freeze the time
axis of a recurrent layer, so the graph is put together with onnx's helper.

    inputs   words (B, T) int64, candidates (B, T, K) int64, and per layer h0.. (and c0.. of an LSTM) (1, B, d)
    outputs  m (B, T, K): scores of the candidates after each word; log_z (B, T) if exact; the next state
"""
