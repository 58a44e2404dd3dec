#!/usr/bin/env bash
# try.sh BUILD SOURCE: installs the build to a folder of its own, builds examples/own_module.cc against it as a program outside the clone
# would, and runs both it and the installed program.
set -euo pipefail
build=$1 source=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/installed" >"$work/install.log"
mkdir "$work/own"
cp "$here/CMakeLists.txt" "$source/examples/own_module.cc" "$work/own"
cmake -S "$work/own" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/installed" -DOWN_SOURCE=own_module.cc >"$work/configure.log"
cmake --build "$work/build"
"$work/build/own"
"$work/installed/bin/hyperion" --version
"$work/installed/bin/hyperion" train "$source/recipes/quickstart.toml" --dry-run >/dev/null
echo "installed, found by find_package, built against and run"
