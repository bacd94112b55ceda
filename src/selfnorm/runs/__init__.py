"""The run folder: what is saved and how it is found again. Everything in it is readable or safetensors.

recipe.toml  vocab.txt  tokenizer.json  env.json     readable in an editor
history.jsonl                                        a line per validation
model.safetensors  best.safetensors                  the last and the best weights, ready to score: m estimates log p
manifest.json                                        the sha256 of all of them but the checkpoint, which carries its own
checkpoint.safetensors                               weights, state, random generator and position, to resume exactly
calibration.json  calibration.shift.safetensors …    what `calibrate` found, and which kind is in use
valid.json  test.json  test.shift.json …             measurements, one file per split and calibration
complete.json  complete.mlp.json …                   sentence completion, one file per calibration
"""
