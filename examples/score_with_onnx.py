"""Score sentences with an exported model, using only onnxruntime and numpy: no torch, no selfnorm.

Usage: python examples/score_with_onnx.py model.onnx < sentences.txt
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

path = Path(sys.argv[1])
facts = json.loads(path.with_suffix(".json").read_text())
index = {word: i for i, word in enumerate(path.with_suffix(".vocab.txt").read_text(encoding="utf-8").split("\n")[:-1])}
session = onnxruntime.InferenceSession(str(path))
names = [i.name for i in session.get_inputs() if i.name.endswith("_in")]
for line in sys.stdin:
    ids = [index.get(word, facts["unk"]) for word in line.split()]
    words, targets = np.array([[facts["eos"], *ids]]), np.array([[*ids, facts["eos"]]])
    state = {name: np.zeros((1, 1, facts["d"]), np.float32) for name in names}
    feed = {"words": words, "candidates": targets[..., None], **state}
    m, *log_z = session.run(["m", "log_z"] if facts["exact"] else ["m"], feed)  # with log Z where it was exported
    print(f"{float(m.sum() - sum(z.sum() for z in log_z)):.4f}")
