#!/bin/sh
# The entry point of an image with relay, installed as relay-workspace: names the project after the workspace, starts its relay, and runs
# the command in place of itself.
#
#   RELAY_PROJECT     the project, if it is to have a name of its own
#   WORKSPACE_NAME    else the workspace's name (default: that of the working directory)
#   RELAY_PORT        relay's port (default 7331); it listens on loopback only
#
# What relay says goes to relay.log in its project's data directory. `relay serve` as the command is run as it is.
set -eu

start_seconds_max=10

say() { printf 'relay-workspace: %s\n' "$*" >&2; }

# project_of NAME: as a project may be named, 1 to 32 of A-Z, a-z, 0-9, - and _, the first a letter or a digit. Other characters are
# dashes.
project_of() {
  name=$(printf '%s' "$1" | LC_ALL=C tr -c 'A-Za-z0-9_-' '-' | LC_ALL=C sed 's/--*/-/g; s/^[-_]*//' | cut -c 1-32 | sed 's/-*$//')
  case $name in
    # What means something in an address is no name.
    agent | everyone) name=$name-1 ;;
  esac
  printf '%s\n' "${name:-default}"
}

if [ -z "${RELAY_PROJECT:-}" ]; then
  RELAY_PROJECT=$(project_of "${WORKSPACE_NAME:-$(basename "$PWD")}")
fi
export RELAY_PROJECT

if [ "$#" -eq 0 ]; then
  set -- relay serve
fi
if [ "$1" = relay ] && [ "${2:-}" = serve ]; then
  exec "$@"
fi

data=${XDG_DATA_HOME:-$HOME/.local/share}/relay/projects/$RELAY_PROJECT
(umask 077 && mkdir -p "$data")
log=$data/relay.log
: >"$log" # nothing of an earlier start is taken for this one's
relay serve >>"$log" 2>&1 </dev/null &
relay=$!
tries=$((start_seconds_max * 10))
until grep -q 'waiting for connections' "$log"; do
  tries=$((tries - 1))
  if ! kill -0 "$relay" 2>/dev/null || [ "$tries" -le 0 ]; then
    say "relay does not run; the command runs without it. What relay said:"
    cat "$log" >&2
    break
  fi
  sleep 0.1
done
exec "$@"
