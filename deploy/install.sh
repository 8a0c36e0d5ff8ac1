#!/bin/sh
# Puts relay into an image, or onto a machine, in two steps, so that each is done by the user whose files it makes:
#
#   deploy/install.sh program BINARY [PREFIX]    by root: relay, its completions and manual pages, and the entry point, below PREFIX
#                                                (default /usr/local)
#   deploy/install.sh connect [PREFIX]           by the user who runs the agents: connects Claude Code, Codex, Gemini CLI, OpenCode and
#                                                Cursor, in that user's own files, as `relay install --global --tools agent-relay` does
#
# It needs no network, and nothing but a POSIX shell and the usual commands.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

usage() { fail 'usage: install.sh program BINARY [PREFIX], or install.sh connect [PREFIX]'; }

# In an absolute path, since what is installed may name it.
absolute() {
  case $1 in
    /*) printf '%s\n' "$1" ;;
    *) fail "$1 is no absolute path" ;;
  esac
}

program() {
  binary=$1
  prefix=$(absolute "$2")
  [ -f "$binary" ] || fail "$binary is no file"
  bin=$prefix/bin
  mkdir -p "$bin"
  # In one step each: what runs, runs on.
  cp "$binary" "$bin/.relay.new"
  chmod 755 "$bin/.relay.new"
  "$bin/.relay.new" --version || {
    rm -f "$bin/.relay.new"
    fail "$binary does not run here"
  }
  mv -f "$bin/.relay.new" "$bin/relay"
  cp "$here/entrypoint.sh" "$bin/.relay-workspace.new"
  chmod 755 "$bin/.relay-workspace.new"
  mv -f "$bin/.relay-workspace.new" "$bin/relay-workspace"

  share=$prefix/share
  mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
  "$bin/relay" man "$share/man/man1" >/dev/null
  "$bin/relay" completions bash >"$share/bash-completion/completions/relay"
  "$bin/relay" completions zsh >"$share/zsh/site-functions/_relay"
  "$bin/relay" completions fish >"$share/fish/vendor_completions.d/relay.fish"
}

connect() {
  prefix=$(absolute "$1")
  [ -x "$prefix/bin/relay" ] || fail "$prefix/bin/relay is missing; install.sh program puts it there"
  case ${HOME:-} in
    /*) ;;
    *) fail 'HOME is not set to an absolute path' ;;
  esac
  # First on PATH, so that what is installed says relay and finds the one of a later image as well.
  PATH=$prefix/bin:$PATH
  export PATH
  relay install --global --tools agent-relay --editor claude --editor codex --editor gemini --editor opencode --editor cursor
}

case ${1:-} in
  program)
    if [ $# -lt 2 ] || [ $# -gt 3 ]; then usage; fi
    program "$2" "${3:-/usr/local}"
    ;;
  connect)
    if [ $# -gt 2 ]; then usage; fi
    connect "${2:-/usr/local}"
    ;;
  *) usage ;;
esac
