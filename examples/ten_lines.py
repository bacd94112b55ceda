"""Train, measure and calibrate from Python, in ten lines. Usage: python examples/ten_lines.py TEXT FOLDER"""

import sys
from pathlib import Path

from selfnorm.experiment import calibrate_run, measure_split, run
from selfnorm.opening import open_scorer, open_with_text
from selfnorm.recipe import read_recipe

recipe = read_recipe(
    None,
    [
        f'data.file="{sys.argv[1]}"',
        "criterion.name=nce",
        "model.d=16",
        "training.epochs=2",
        "training.batch=8",
    ],
)
made = run(recipe, Path(sys.argv[2]))
made, corpus = open_with_text(made.folder)
calibrate_run(made, corpus, "shift")
found = measure_split(made, corpus, "test")
print(f"perplexity {found.perplexity:.1f}, without log Z {found.u_perplexity:.1f}, sigma_z {found.sigma_z:.3f}")
print(f"score of a sentence: {open_scorer(made.folder).score('the cat saw a dog'):.2f}")
