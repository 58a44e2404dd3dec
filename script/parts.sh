# Sourced by script/test and script/test-all: parts of a long check, each with its minutes and how it ended, as a table last.
part_names=() part_seconds=() part_ends=()
# part NAME COMMAND...: runs it; where it fails the others still run, and `parts_end` fails.
part() {
  local name=$1 start end=0
  shift
  echo "== $name"
  start=$(date +%s)
  "$@" || end=$?
  part_names+=("$name") part_seconds+=($(($(date +%s) - start))) part_ends+=("$end")
}
parts_end() {
  local i all=0 failed=0
  echo
  printf '%-34s %8s  %s\n' part minutes result
  for i in "${!part_names[@]}"; do
    all=$((all + part_seconds[i]))
    local result=good
    if [ "${part_ends[i]}" != 0 ]; then result="FAILED (${part_ends[i]})" failed=1; fi
    printf '%-34s %8s  %s\n' "${part_names[i]}" "$(minutes "${part_seconds[i]}")" "$result"
  done
  printf '%-34s %8s\n' all "$(minutes $all)"
  return $failed
}
minutes() { awk -v s="$1" 'BEGIN { printf "%.1f", s / 60 }'; }
