# Sourced by script/setup and script/lint: a package from apt is needed only where the file it brings is not found.
say() { printf '%s: %s\n' "${0##*/}" "$*"; }
die() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 3; }

missing=()
need() { command -v "$2" >/dev/null 2>&1 || missing+=("$1"); }  # need PACKAGE COMMAND
need_header() { [ -e "/usr/include/$2" ] || [ -e ".deps/include/$2" ] || missing+=("$1"); }  # need_header PACKAGE HEADER

wanted=()  # what only one feature needs: without it the build leaves that feature out
want_header() { [ -e "/usr/include/$2" ] || wanted+=("$1"); }  # want_header PACKAGE HEADER

# want_library PACKAGE LIBRARY: found while running, by that name
want_library() { { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep "$2 " >/dev/null || wanted+=("$1"); }

# Installs what is missing, as root or through sudo, and says so; touches nothing where all is there.
install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=() log
  command -v apt-get >/dev/null || die "missing: ${missing[*]}" "install them with this system's package manager, then run this again"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing: ${missing[*]}, and neither root nor sudo" "ask an administrator: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing with apt: ${missing[*]}"
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -5 "$log" >&2
    die "apt could not install ${missing[*]}" "the lines above say why; the full log is $log"
  fi
  rm -f "$log"
  missing=()
}

# Tries to install what is wanted; a machine that cannot have it goes on without.
install_wanted() {
  [ ${#wanted[@]} -gt 0 ] || return 0
  (missing=("${wanted[@]}"); install_missing) 2>/dev/null || say "going on without ${wanted[*]}"
  wanted=()
}
