#!/usr/bin/env bash
# All speed benchmarks, into benchmarks/results/: tables, JSON and plots. About fifteen minutes on two cores.
# Every benchmark runs, whatever came of those before it. The exit code is 1 if one failed or a claim does not hold.
set -uo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
OUT=benchmarks/results
failed=()
try() { "$@" || failed+=("$*"); }

try "$BIN"/python benchmarks/claims.py --json $OUT/claims.json
try "$BIN"/python benchmarks/completion.py --json $OUT/completion.json
try "$BIN"/python benchmarks/rescoring.py --json $OUT/rescoring.json
try "$BIN"/selfnorm bench steps --to $OUT
try "$BIN"/selfnorm bench scoring --to $OUT
try "$BIN"/python benchmarks/peers.py --vocab 10000 --json $OUT/peers-10k.json
try "$BIN"/python benchmarks/peers.py --vocab 300000 --json $OUT/peers-300k.json

if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
