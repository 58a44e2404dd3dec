#!/bin/sh
# The workshop's fourth patient: a job of three ranks, one of which is held up in every step. docs/workshop/5_debugging.md
#   hyperion launch -n 3 -- workshop/one_slow_rank.sh --run slow-rank
if [ "$RANK" = 2 ]; then
  export HYPERION_FAULTS=train.forward=sleep@1/1  # 300 ms in each forward, as another program on its core might take
fi
exec hyperion train workshop/tinyllama.toml --train.batch=3 --parallel dp=3 "$@"
