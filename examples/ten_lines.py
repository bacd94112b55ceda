"""Train, calibrate, measure and score from Python, in a few lines. Usage: python examples/ten_lines.py TEXT FOLDER"""

import sys

import selfnorm as sn

run = sn.train(sys.argv[2], text=sys.argv[1], criterion="nce", d=16, epochs=2, batch=8)
run.calibrate("shift")
found = run.measure("test")
print(f"perplexity {found.perplexity:.1f}, without log Z {found.u_perplexity:.1f}, sigma_z {found.sigma_z:.3f}")
print(f"score of a sentence: {sn.load(run.folder).score('the cat saw a dog'):.2f}")
