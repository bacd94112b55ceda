#!/usr/bin/env bash
# All benchmarks, into benchmarks/results/: tables, JSON and plots. About fifteen minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
"$BIN"/python benchmarks/claims.py --json benchmarks/results/claims.json || true
"$BIN"/python benchmarks/completion.py --json benchmarks/results/completion.json || true
"$BIN"/python benchmarks/rescoring.py --json benchmarks/results/rescoring.json || true
"$BIN"/selfnorm bench steps --to benchmarks/results
"$BIN"/selfnorm bench scoring --to benchmarks/results
"$BIN"/python benchmarks/peers.py --vocab 10000 --d 100 | tee benchmarks/results/peers-10k.json
"$BIN"/python benchmarks/peers.py --vocab 300000 --d 100 | tee benchmarks/results/peers-300k.json
