#!/usr/bin/env bash
# Starts a lift: builds relay, opens or prints the three agent sessions (pm, dev-a, dev-b), and runs the server.
#
# It may be called from any directory, also through a symbolic link. It builds the repository that it lies in; the git
# repository that it is called from is the one the agents work in, and the one whose kickoff prompts are used.
# docs/MULTI-AGENT.md tells how a lift goes.
#
# In the panes that it opens it runs itself again, as `start.sh --pane ROLE PORT BINARY`: nothing has to be quoted for
# a shell, and no file is left behind.

set -euo pipefail
unset CDPATH

readonly session=relay-lift
readonly roles='pm dev-a dev-b'
readonly relay_start_seconds_max=10
readonly answer_seconds_max=2

main() {
  mode=manual
  port=7331
  self=$(resolve_links "${BASH_SOURCE[0]}")
  home=$(dirname "$self")
  repository=$(git rev-parse --show-toplevel 2>/dev/null) || repository=$PWD
  agent_command=${RELAY_AGENT_COMMAND:-claude}
  # tmux and kitty start a pane with their own environment, not with the caller's.
  in_pane=(env "PATH=$PATH" "RELAY_AGENT_COMMAND=$agent_command" "$self" --pane)

  if [[ ${1:-} == --pane && $# -eq 4 ]]; then
    port=$3
    relay=$4
    run_pane "$2"
  fi

  read_options "$@"
  case $mode in
    manual) ;;
    tmux) check_tmux ;;
    kitty) check_kitty ;;
  esac
  check_port
  build
  case $mode in
    manual) run_manual ;;
    tmux) launch_tmux ;;
    kitty) launch_kitty ;;
  esac
}

usage() {
  cat <<'USAGE'
Usage: start.sh [--manual|--tmux|--kitty] [--port N]

  --manual   print the three kickoff prompts, then run relay in this terminal (the default)
  --tmux     open the tmux session relay-lift: one window with panes for relay, pm, dev-a and dev-b
  --kitty    open a kitty tab with windows for relay, pm, dev-a and dev-b
  --port N   listen on port N, 1 to 65535 (default 7331)

RELAY_AGENT_COMMAND is the command that starts an agent; it gets the kickoff prompt as its last argument
(default: claude).
USAGE
}

read_options() {
  while (($#)); do
    case $1 in
      --manual | --tmux | --kitty) mode=${1#--} ;;
      --port)
        (($# >= 2)) || refuse_usage "--port needs a number from 1 to 65535"
        port=$2
        shift
        ;;
      --port=*) port=${1#--port=} ;;
      -h | --help)
        usage
        exit 0
        ;;
      *) refuse_usage "unknown option: $1" ;;
    esac
    shift
  done
  if [[ ! $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port > 65535)); then
    refuse_usage "bad port: \"$port\" is not a number from 1 to 65535"
  fi
}

# --- What must hold before anything is started -----------------------------------------------------------------------

check_tmux() {
  command -v tmux >/dev/null \
    || fail 'tmux is not installed. Install it, or run start.sh --manual.'
  [[ -t 0 && -t 1 && ${TERM:-dumb} != dumb ]] \
    || fail '--tmux shows its panes in the terminal, and this is none that it can use.' \
      'Run it in a terminal, or run start.sh --manual.'
  if tmux has-session -t "=$session" 2>/dev/null; then
    fail "the tmux session $session exists already. Look at it with: tmux attach -t $session" \
      "or end it, with all that runs in it, with: tmux kill-session -t $session"
  fi
}

check_kitty() {
  local answer
  command -v kitty >/dev/null \
    || fail 'kitty is not installed. Install it, or run start.sh --manual.'
  # kitty finds the instance to control through its socket, or else through the terminal it runs in.
  [[ -n ${KITTY_LISTEN_ON:-} || (-n ${KITTY_WINDOW_ID:-} && -t 0 && -t 1) ]] \
    || fail 'this is no kitty terminal, so there is nowhere to open windows.' \
      'Run start.sh --kitty inside kitty (or with KITTY_LISTEN_ON set), or run start.sh --manual.'
  answer=$(kitty @ ls 2>&1) \
    || fail "kitty does not take remote control: $answer" \
      'Put "allow_remote_control yes" into kitty.conf, start kitty again, and run this again.'
}

check_port() {
  local who
  listening || return 0
  who=$(describe_relay) || who='something answers there that is not a relay'
  # The command is for the user to run.
  # shellcheck disable=SC2016
  printf 'relay already running? kill it with: kill $(lsof -ti:%s)\n' "$port" >&2
  fail "port $port is taken: $who. End that, or choose another port with --port N."
}

# Whether anything listens on the port.
listening() {
  (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

# The answer to GET /health, or what came of it in the time allowed. It runs in a subshell, which may be killed by the
# signal for a connection that the other side has closed.
health() (
  exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
  token=
  [[ -z ${RELAY_TOKEN:-} ]] || token="Authorization: Bearer $RELAY_TOKEN"$'\r\n'
  printf 'GET /health HTTP/1.1\r\nHost: localhost:%s\r\n%sConnection: close\r\n\r\n' "$port" "$token" >&3
  answer=
  IFS= read -r -d '' -n 16384 -t "$answer_seconds_max" answer <&3 || true
  printf '%s' "$answer"
) 2>/dev/null

readonly version_pattern='"version"[[:space:]]*:[[:space:]]*"([^"]*)"'
readonly started_pattern='"started_at"[[:space:]]*:[[:space:]]*"?([^",}]*)'
readonly boot_pattern='"boot"[[:space:]]*:'

# Prints what the relay on the port says of itself; fails when none answers.
describe_relay() {
  local answer version
  answer=$(health) || return 1
  if [[ $answer == *'this relay wants a token'* ]]; then
    printf 'relay answers there, and wants the token that it was started with (RELAY_TOKEN)'
    return
  fi
  [[ $answer =~ $boot_pattern && $answer =~ $version_pattern ]] || return 1
  version=${BASH_REMATCH[1]}
  [[ $answer =~ $started_pattern ]] || return 1
  printf 'relay %s answers there, started at %s' "$version" "${BASH_REMATCH[1]}"
}

build() {
  local target output
  command -v cargo >/dev/null \
    || fail 'cargo is missing, and relay is built with it.' \
      'Install Rust (with rustup, say), open a new terminal, and run this again.'
  target=${CARGO_TARGET_DIR:-target}
  [[ $target == /* ]] || target=$home/$target
  relay=$target/release/relay
  [[ -x $relay ]] || say 'building relay; the first time takes a few minutes'
  if ! output=$(cd "$home" && cargo build --release --locked </dev/null 2>&1); then
    printf '%s\n' "$output" >&2
    fail 'the build failed; above is what cargo said. Mend that and run this again.'
  fi
  [[ -x $relay ]] \
    || fail "cargo built relay, but not as $relay. Set CARGO_TARGET_DIR to where cargo puts what it builds."
}

# --- Prompts ---------------------------------------------------------------------------------------------------------

# The newest kickoff prompt written for a role in the calling repository; of files of the same age, the last by name.
prompt_file() {
  local file newest=
  for file in "$repository/docs/superpowers/coordination/"*"-$1-prompt.md"; do
    [[ -f $file && ! $newest -nt $file ]] && newest=$file
  done
  [[ -n $newest ]] && printf '%s' "$newest"
}

# A file may begin with words to the user; the prompt is then what stands below the first line of dashes.
readonly dashes='^---[[:space:]]*$'

prompt_text() {
  local file
  if file=$(prompt_file "$1"); then
    if grep -q "$dashes" "$file"; then
      awk -v dashes="$dashes" 'below; $0 ~ dashes { below = 1 }' "$file"
    else
      cat "$file"
    fi
  else
    "$relay" prompt "$1" --port "$port"
  fi
}

check_prompts() {
  local role text
  for role in $roles; do
    text=$(prompt_text "$role") || fail "there is no prompt for $role; see above."
    [[ $text =~ [^[:space:]] ]] \
      || fail "$(prompt_file "$role") holds no prompt (what counts stands below its first --- line)." \
        'Fill it or remove it.'
  done
}

# One line on how Claude Code gets to relay, unless the project's .mcp.json leads there.
say_how_to_connect() {
  local url="http://localhost:$port/sse" configuration='' entry='"relay":\{([^}]*)'
  [[ ! -f $repository/.mcp.json ]] || configuration=$(tr -d '[:space:]' <"$repository/.mcp.json")
  if [[ ! $configuration =~ $entry ]]; then
    say "this project's .mcp.json has no relay; connect Claude Code once with: claude mcp add --transport sse relay $url"
  elif [[ ${BASH_REMATCH[1]} == *'"url":'* && ${BASH_REMATCH[1]} != *":$port/"* ]]; then
    say "this project's .mcp.json has relay on another port; change its url to $url"
  fi
}

# --- The three modes -------------------------------------------------------------------------------------------------

run_manual() {
  local role file part
  say 'open three more terminals; once relay is ready, start an agent in each, with its prompt as the first message'
  for role in $roles; do
    if file=$(prompt_file "$role"); then
      part='is this file'
      ! grep -q "$dashes" "$file" || part='stands below the first --- line of this file'
      printf '\n======== %s: the prompt %s ========\n%s\n' "$role" "$part" "$file"
    else
      printf '\n======== %s: copy from here ========\n' "$role"
      prompt_text "$role"
      printf '======== %s: to here ========\n' "$role"
    fi
  done
  echo
  say_how_to_connect
  exec "$relay" serve --port "$port"
}

launch_tmux() {
  check_prompts
  local rows columns size=() directory pane role
  read -r rows columns < <(stty size 2>/dev/null) || true
  ((${rows:-0} > 0 && ${columns:-0} > 0)) && size=(-x "$columns" -y "$rows")
  directory=${repository//\#/##} # tmux expands #-sequences there

  pane=$(tmux new-session -d -s "$session" -n lift ${size[@]+"${size[@]}"} -c "$directory" -P -F '#{pane_id}' \
    "${in_pane[@]}" relay "$port" "$relay") \
    || fail "tmux opened no session; above is what it said. Mend that, or run start.sh --manual."
  trap 'abandon tmux kill-session -t "=$session"' EXIT
  # An agent that sets its terminal's title does not change the role on the border.
  tmux set-option -w -t "$pane" pane-border-status top
  tmux set-option -w -t "$pane" pane-border-format ' #{@relay_role} '
  title_tmux_pane "$pane" relay
  if ! await_relay; then
    tmux capture-pane -p -t "$pane" | grep . >&2 || true
    fail "relay did not answer on port $port within $relay_start_seconds_max s; above is what it printed."
  fi
  for role in $roles; do
    pane=$(tmux split-window -d -t "$pane" -c "$directory" -P -F '#{pane_id}' \
      "${in_pane[@]}" "$role" "$port" "$relay")
    title_tmux_pane "$pane" "$role"
    tmux select-layout -t "$pane" tiled
    [[ $role != pm ]] || tmux select-pane -t "$pane" # the session that the user talks to
  done
  trap - EXIT

  say "the lift runs in the tmux session $session; come back to it with: tmux attach -t $session"
  say_how_to_connect
  local show=attach-session
  [[ -z ${TMUX:-} ]] || show=switch-client
  # It also returns an error when the session is ended while it is shown, which is how a lift ends.
  tmux "$show" -t "=$session" || ! tmux has-session -t "=$session" 2>/dev/null \
    || fail "tmux could not show the session; it runs on. End it with: tmux kill-session -t $session"
}

title_tmux_pane() {
  tmux select-pane -t "$1" -T "$2"
  tmux set-option -p -t "$1" @relay_role "$2"
}

launch_kitty() {
  check_prompts
  local tab role focus=()
  tab=$(kitty @ launch --type=tab --tab-title="$session" --title=relay --cwd="$repository" \
    "${in_pane[@]}" relay "$port" "$relay") \
    || fail "kitty opened no tab; above is what it said. Mend that, or run start.sh --manual."
  # shellcheck disable=SC2064 # the window is known now
  trap "abandon kitty @ close-tab --match=window_id:$tab" EXIT
  if ! await_relay; then
    kitty @ get-text --match="id:$tab" | grep . >&2 || true
    fail "relay did not answer on port $port within $relay_start_seconds_max s; above is what it printed."
  fi
  kitty @ goto-layout --match="window_id:$tab" grid || true # a user may have switched that layout off
  for role in $roles; do
    kitty @ launch --type=window --match="window_id:$tab" --title="$role" --cwd="$repository" \
      ${focus[@]+"${focus[@]}"} "${in_pane[@]}" "$role" "$port" "$relay" >/dev/null
    focus=(--keep-focus) # on pm, the session that the user talks to
  done
  trap - EXIT

  say "the lift runs in the kitty tab $session"
  say_how_to_connect
}

# An agent looks for its tools when its session starts, so relay must answer before one is started.
await_relay() {
  local deadline=$((SECONDS + relay_start_seconds_max))
  until describe_relay >/dev/null; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# Takes back what was opened, after something went wrong and was told.
abandon() {
  "$@" >/dev/null 2>&1 || true
  fail 'the lift was not started, and nothing was left running; mend what is said above and run this again.'
}

# --- Inside a pane ---------------------------------------------------------------------------------------------------

# Runs relay or an agent, and then leaves a shell, so that the pane stays and shows what happened.
run_pane() {
  local role=$1 status=0 prompt
  trap : INT # Ctrl-C ends the program in the pane, not the pane
  if [[ $role == relay ]]; then
    say_how_to_connect
    "$relay" serve --port "$port" || status=$?
    say "relay has ended with status $status; start it again with: $(printf '%q ' "$relay" serve --port "$port")"
    exec "${SHELL:-/bin/sh}"
  fi

  export RELAY_AGENT=$role
  if prompt=$(prompt_text "$role"); then
    [[ $prompt != -* ]] || prompt=$'\n'$prompt # so that no agent takes it for an option
    # As git does with GIT_EDITOR: the command is shell, so that it may carry quoted arguments.
    bash -c "$agent_command \"\$@\"" "$self" "$prompt" || status=$?
    say "$role: \"$agent_command\" has ended with status $status$(explain_status "$status")"
  else
    say "$role: there is no prompt to start with; see above"
  fi
  say "start $role again with: $(printf '%q ' "$self" --pane "$role" "$port" "$relay")"
  exec "${SHELL:-/bin/sh}"
}

explain_status() {
  case $1 in
    126) echo ': it could not be run' ;;
    127) echo ': it was not found; install it, or set RELAY_AGENT_COMMAND to the command that starts your agent' ;;
  esac
}

# --- Small things ----------------------------------------------------------------------------------------------------

resolve_links() {
  local path=$1 directory
  while [[ -L $path ]]; do
    directory=$(cd -P "$(dirname "$path")" && pwd)
    path=$(readlink "$path")
    [[ $path == /* ]] || path=$directory/$path
  done
  printf '%s/%s' "$(cd -P "$(dirname "$path")" && pwd)" "$(basename "$path")"
}

say() {
  printf '[relay] %s\n' "$*"
}

fail() {
  printf 'start.sh: %s\n' "$@" >&2
  exit 1
}

refuse_usage() {
  printf 'start.sh: %s\n' "$1" >&2
  usage >&2
  exit 1
}

main "$@"
