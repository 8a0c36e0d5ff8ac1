#!/usr/bin/env bash
# Starts a lift: builds relay, opens or prints the agent sessions (pm, dev-a and dev-b by default), and runs the server.
#
# It may be called from any directory, also through a symbolic link. It builds the repository that it lies in; the git
# repository that it is called from is the one the agents work in, and the one whose kickoff prompts are used.
# docs/MULTI-AGENT.md tells how a lift goes.
#
# In the panes that it opens it runs itself again, as `start.sh --pane ROLE PORT HOST ROLES BINARY`: nothing has to be
# quoted for a shell. A token must not stand in the list of processes, so each pane gets it in a file that only this user
# may read, and that the pane removes.

set -euo pipefail
unset CDPATH

readonly session=relay-lift
readonly default_host=127.0.0.1
readonly default_roles=pm,dev-a,dev-b
readonly relay_start_seconds_max=10
readonly relay_has_ended='relay has ended with status'
readonly answer_seconds_max=2
readonly tmux_pinned_lines_max=4 # tmux has five lines at the bottom, and the first is its own

main() {
  mode=manual
  port=${RELAY_PORT:-7331}
  host=$default_host
  roles=$default_roles
  offers_install=yes
  self=$(resolve_links "${BASH_SOURCE[0]}")
  home=$(dirname "$self")
  # shellcheck source=start/panes.sh
  . "$home/start/panes.sh"
  called=$(printf '%q' "$0") # as it can be called again from where the user is
  repository=$(git rev-parse --show-toplevel 2>/dev/null) || repository=$PWD
  agent_command=${RELAY_AGENT_COMMAND:-claude}
  token_files=()

  if [[ ${1:-} == --pane && $# -eq 6 ]]; then
    port=$3
    host=$4
    roles=$5
    relay=$6
    run_pane "$2"
  fi

  read_options "$@"
  case $mode in
    manual) ;;
    tmux)
      check_tmux
      check_agent
      ;;
    kitty)
      check_kitty
      check_agent
      ;;
  esac
  check_port
  build
  check_prompts
  offer_install
  case $mode in
    manual) run_manual ;;
    tmux) launch_tmux ;;
    kitty) launch_kitty ;;
  esac
}

usage() {
  cat <<'USAGE'
Usage: start.sh [--manual|--tmux|--kitty] [--port N] [--roles ROLES] [--host ADDRESS --token TOKEN] [--no-install]

  --manual        print the kickoff prompts, then run relay in this terminal (the default)
  --tmux          open the tmux session relay-lift: one window with a pane for relay and one for each role
  --kitty         open a kitty tab with a window for relay and one for each role
  --port N        listen on port N, 1 to 65535 (default RELAY_PORT, or else 7331)
  --roles ROLES   the roles of the lift, separated by commas (default pm,dev-a,dev-b)
  --host ADDRESS  listen on this address (default 127.0.0.1); any other than this machine's own needs a token
  --token TOKEN   a secret that every request must carry; RELAY_TOKEN does the same and is not in the shell's history
  --no-install    do not ask in a terminal whether to connect Claude Code in a project in which it has no relay

RELAY_AGENT_COMMAND is the command that starts an agent; it gets the kickoff prompt as its last argument
(default: claude).
USAGE
}

read_options() {
  while (($#)); do
    case $1 in
      --manual | --tmux | --kitty) mode=${1#--} ;;
      --port | --roles | --host | --token)
        (($# >= 2)) || refuse_usage "$1 needs $(wanted_by "$1")"
        read_value "$1" "$2"
        shift
        ;;
      --port=* | --roles=* | --host=* | --token=*) read_value "${1%%=*}" "${1#*=}" ;;
      --no-install) offers_install= ;;
      -h | --help)
        usage
        exit 0
        ;;
      *) refuse_usage "unknown option: $1" ;;
    esac
    shift
  done
  check_values
}

wanted_by() {
  case $1 in
    --port) echo 'a number from 1 to 65535' ;;
    --roles) echo 'roles, separated by commas' ;;
    --host) echo 'an IP address' ;;
    --token) echo 'a secret of at least 16 characters' ;;
  esac
}

without_spaces_around_commas() {
  local list=$1
  while [[ $list == [[:space:]]* ]]; do list=${list#?}; done
  while [[ $list == *[[:space:]] ]]; do list=${list%?}; done
  while [[ $list == *[[:space:]],* ]]; do list=${list/[[:space:]],/,}; done
  while [[ $list == *,[[:space:]]* ]]; do list=${list/,[[:space:]]/,}; done
  printf '%s' "$list"
}

read_value() {
  case $1 in
    --port) port=$2 ;;
    --roles) roles=$(without_spaces_around_commas "$2") ;;
    --host) host=$2 ;;
    # From here on in the environment only: relay and this script take it from there.
    --token) export RELAY_TOKEN=$2 ;;
  esac
}

# What relay would refuse, said before anything is built. What is left to it are rare things, such as too many roles.
check_values() {
  local LC_ALL=C role seen=,
  local -a list
  if [[ ! $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port > 65535)); then
    refuse_usage "bad port: \"$port\" is not a number from 1 to 65535"
  fi
  [[ $roles =~ ^[^,]+(,[^,]+)*$ ]] || refuse_usage "bad roles: \"$roles\" is no list such as $default_roles"
  IFS=, read -ra list <<<"$roles"
  for role in "${list[@]}"; do
    [[ $role =~ ^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$ && $role != *. ]] \
      || refuse_usage "bad role: \"$role\" has not 1 to 32 of A-Z, a-z, 0-9, -, _ and ., with a letter or a digit first and no dot last"
    [[ $role != user ]] || refuse_usage "bad roles: \"user\" is the person's own inbox, which is there beside every roster; leave it out"
    [[ $role != everyone && $role != agent ]] \
      || refuse_usage "bad role: \"$role\" means something else in an address; choose another name"
    [[ $seen != *,$role,* ]] || refuse_usage "bad roles: \"$role\" is named twice"
    seen+=$role,
  done
  [[ $host != localhost ]] || host=$default_host
  [[ $host =~ ^[0-9]+(\.[0-9]+){3}$ || $host =~ ^[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*$ ]] \
    || refuse_usage "bad host: \"$host\" is not an IP address, such as 127.0.0.1, or localhost"
  if [[ -n ${RELAY_TOKEN:-} ]]; then
    [[ $RELAY_TOKEN =~ ^[!-~]{16,}$ ]] \
      || refuse_usage 'bad token: a token has at least 16 characters, all of them printable ASCII without spaces'
  elif [[ $host != 127.* && $host != ::1 ]]; then
    refuse_usage "--host $host can be reached from other machines; give --token (or RELAY_TOKEN) too, which every request must then carry"
  fi
  # The session that the user talks to.
  talked_to=${roles%%,*}
  [[ ,$roles, != *,pm,* ]] || talked_to=pm
}

# --- What must hold before anything is started -----------------------------------------------------------------------

check_tmux() {
  command -v tmux >/dev/null \
    || fail "tmux is not installed. Install it, or run: $called --manual"
  [[ -t 0 && -t 1 && ${TERM:-dumb} != dumb ]] \
    || fail '--tmux shows its panes in the terminal, and this is none that it can use.' \
      "Run it in a terminal, or run: $called --manual"
  if tmux has-session -t "=$session" 2>/dev/null; then
    fail "the tmux session $session exists already. Look at it with: tmux attach -t $session" \
      "or end it, with all that runs in it, with: tmux kill-session -t $session"
  fi
}

check_kitty() {
  local answer
  command -v kitty >/dev/null \
    || fail "kitty is not installed. Install it, or run: $called --manual"
  # kitty finds the instance to control through its socket, or else through the terminal it runs in.
  [[ -n ${KITTY_LISTEN_ON:-} || (-n ${KITTY_WINDOW_ID:-} && -t 0 && -t 1) ]] \
    || fail 'this is no kitty terminal, so there is nowhere to open windows.' \
      "Run $called --kitty inside kitty (or with KITTY_LISTEN_ON set), or run: $called --manual"
  answer=$(kitty @ ls 2>&1) \
    || fail "kitty does not take remote control: $answer" \
      'Put "allow_remote_control yes" into kitty.conf, start kitty again, and run this again.'
}

# The command is shell text, so its first word is looked up only where it is plain to see which that is.
check_agent() {
  local command=$agent_command word
  local assignment='^[[:space:]]*([A-Za-z_][A-Za-z0-9_]*)=[A-Za-z0-9_./+:@%,-]*[[:space:]]+(.*)$'
  while [[ $command =~ $assignment ]]; do
    [[ ${BASH_REMATCH[1]} != PATH ]] || return 0
    command=${BASH_REMATCH[2]}
  done
  [[ $command =~ [^[:space:]] ]] || fail "RELAY_AGENT_COMMAND is \"$agent_command\", which names no command."
  local single="^[[:space:]]*'([^']+)'([[:space:]]|\$)"
  local double='^[[:space:]]*"([^"$`\]+)"([[:space:]]|$)'
  local plain='^[[:space:]]*([A-Za-z0-9_./+:@%,~-]+)([[:space:];&|]|$)'
  [[ $command =~ $single || $command =~ $double || $command =~ $plain ]] || return 0
  word=${BASH_REMATCH[1]}
  [[ $word != \~/* ]] || word=$HOME/${word#\~/}
  # In a shell of its own, which knows none of the functions here.
  # shellcheck disable=SC2016
  (cd "$repository" && bash -c 'command -v -- "$1"' bash "$word") >/dev/null 2>&1 \
    || fail "the agents are started with \"$agent_command\", and there is no program \"$word\"." \
      'Install it, or set RELAY_AGENT_COMMAND to the command that starts your agent (an alias of your shell does not count).'
}

check_port() {
  local address taken='' found='' at='' stop
  for address in $(addresses); do
    listening "$address" || continue
    taken=yes
    found=$(describe_relay "$address") && at=$address && break
  done
  [[ -n $taken ]] || return 0
  # The command is for the user to run.
  # shellcheck disable=SC2016
  printf 'relay already running? kill it with: kill $(lsof -ti:%s)\n' "$port" >&2
  [[ -n $at ]] \
    || fail "port $port is taken: something has it that does not answer as a relay does, unless it is one that is stopped or busy." \
      'Leave it alone, and choose another port with --port.'
  stop=$(stop_command "$at")
  fail "port $port is taken: $found. $stop" 'Or choose another port with --port.'
}

# The addresses at which a client may look for what listens on the host: localhost is both of loopback's.
addresses() {
  case $host in
    127.0.0.1 | 0.0.0.0 | :: | ::1) echo 127.0.0.1 ::1 ;;
    127.*) echo "$host" 127.0.0.1 ::1 ;;
    *) echo "$host" ;;
  esac
}

# The address at which the relay that is started here answers.
own_address() {
  case $host in
    0.0.0.0) echo 127.0.0.1 ;;
    ::) echo ::1 ;;
    *) echo "$host" ;;
  esac
}

# Whether anything listens on the port. An address that is not this machine's may never answer.
listening() {
  local answer
  IFS= read -r -t "$answer_seconds_max" answer < <( (: <>"/dev/tcp/$1/$port") 2>/dev/null && echo yes) && [[ $answer == yes ]]
}

# What ends the relay at an address, and nothing else.
stop_command() {
  local with_token='' arguments=(stop --port "$port")
  [[ -z ${RELAY_TOKEN:-} && $found != *'wants the token'* ]] || with_token=', with RELAY_TOKEN set to its token,'
  [[ $1 == 127.0.0.1 ]] || arguments+=(--host "$1")
  printf 'End it alone%s with: %s' "$with_token" "$(relay_as_typed "${arguments[@]}")"
}

# How the user can call a subcommand of relay, with these arguments, from where they are.
relay_as_typed() {
  local built
  built=$(built_relay)
  if [[ $(relay --version 2>/dev/null </dev/null) == 'relay '[0-9]* ]] && relay "$1" --help >/dev/null 2>&1 </dev/null; then
    printf 'relay %s' "$*"
  elif "$built" "$1" --help >/dev/null 2>&1 </dev/null; then
    printf '%q %s' "$built" "$*"
  else
    # From the repository, whose settings of cargo count only there: with others all would be built anew.
    printf '(cd %q && cargo run --release --locked -- %s)' "$home" "$*"
  fi
}

# The answer to GET /health at an address, or what came of it in the time allowed. It runs in a subshell, which may be
# killed by the signal for a connection that the other side has closed.
health() (
  exec 3<>"/dev/tcp/$1/$port" || exit 1
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

# Prints what the relay at an address says of itself; fails when none answers.
describe_relay() {
  local answer version
  answer=$(health "$1") || return 1
  if [[ $answer == *'this relay wants a token'* ]]; then
    printf 'relay answers there, and wants the token that it was started with (RELAY_TOKEN)'
    return
  fi
  [[ $answer =~ $boot_pattern && $answer =~ $version_pattern ]] || return 1
  version=${BASH_REMATCH[1]}
  [[ $answer =~ $started_pattern ]] || return 1
  printf 'relay %s answers there, started at %s' "$version" "${BASH_REMATCH[1]}"
}

# Where cargo puts relay.
built_relay() {
  local target=${CARGO_TARGET_DIR:-target}
  [[ $target == /* ]] || target=$home/$target
  printf '%s/release/relay' "$target"
}

build() {
  local line part='' output='' status='' doing='' crates=0 started=$SECONDS patience=()
  command -v cargo >/dev/null \
    || fail 'cargo is missing, and relay is built with it.' \
      'Install Rust (with rustup, say), open a new terminal, and run this again.'
  relay=$(built_relay)
  # The last crate takes minutes: the seconds go on. (Before bash 4 a timeout cannot be told from the end.)
  ((BASH_VERSINFO[0] < 4)) || patience=(-t 1)
  while :; do
    if IFS= read -r ${patience[@]+"${patience[@]}"} line; then
      line=$part$line
      part=''
    elif (($? > 128)); then
      part+=$line
      [[ -z $doing || ! -t 2 ]] || show_progress "$doing" "$crates" "$((SECONDS - started))"
      continue
    else
      break
    fi
    [[ $line != 'status '* ]] || status=${line#status }
    output+=$line$'\n'
    [[ $line =~ ^\ *(Compiling|Downloading|Downloaded|Updating|Blocking)\ ([^\(]*) ]] || continue
    [[ -n $doing ]] || say 'building relay; the first time takes a few minutes' >&2
    doing="${BASH_REMATCH[1]} ${BASH_REMATCH[2]% }"
    [[ $doing != Compiling* ]] || crates=$((crates + 1))
    show_progress "$doing" "$crates" "$((SECONDS - started))"
  done < <(run_cargo)
  [[ -z $doing || ! -t 2 ]] || printf '\r\033[K' >&2
  if [[ $status != 0 ]]; then
    printf '%s' "${output%status *}" >&2
    fail 'the build failed; above is what cargo said. Mend that and run this again.'
  fi
  [[ -z $doing ]] || say "built in $((SECONDS - started)) s" >&2
  [[ -x $relay ]] \
    || fail "cargo built relay, but not as $relay. Set CARGO_TARGET_DIR to where cargo puts what it builds."
}

# Prints what cargo prints, and its status at the end. It must say what it does, whatever the user's settings are.
run_cargo() {
  local status=0
  cd "$home" || return
  CARGO_TERM_COLOR=never CARGO_TERM_QUIET=false CARGO_TERM_VERBOSE=false CARGO_TERM_PROGRESS_WHEN=never \
    cargo build --release --locked </dev/null 2>&1 || status=$?
  printf 'status %s\n' "$status"
}

# One line that changes, in a terminal; elsewhere a line for every twenty crates.
show_progress() {
  if [[ -t 2 ]]; then
    printf '\r\033[K[relay] building: %.40s (%s crates, %s s so far)' "$1" "$2" "$3" >&2
  elif (($2 % 20 == 0)); then
    say "building: $1 ($2 crates so far)" >&2
  fi
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
    "$relay" prompt "$1" --port "$port" --host "$host" --roles "$roles"
  fi
}

check_prompts() {
  local role text
  for role in ${roles//,/ }; do
    text=$(prompt_text "$role") \
      || fail "there is no general prompt for $role; above is why." \
        "Write one to $repository/docs/superpowers/coordination/NAME-$role-prompt.md, or choose other --roles."
    [[ $text =~ [^[:space:]] ]] \
      || fail "$(prompt_file "$role") holds no prompt (what counts stands below its first --- line)." \
        'Fill it or remove it.'
  done
}

# One line on how Claude Code gets to relay, unless it does: by its configuration, or by the agents' command.
say_how_to_connect() {
  local hint
  hint=$(connection_hint)
  [[ -z $hint ]] || say "$hint"
}

connection_hint() {
  [[ $agent_command != *--plugin-dir* && $agent_command != *--mcp-config* ]] || return 0
  "$relay" connection-hint --port "$port" --host "$host" --project "$repository" 2>/dev/null || true
}

# Asks whether Claude Code is to be connected, in a terminal; elsewhere, and after a no, a line says how.
offer_install() {
  local answer
  [[ -n $offers_install && -t 0 && -t 1 && $host == "$default_host" ]] || return 0
  [[ $(connection_hint) == 'Claude Code has no relay in this project;'* ]] || return 0
  say "Claude Code has no relay in $repository"
  while :; do
    printf '[relay] connect it there, with hooks that show it messages (relay install --editor claude)? [Y/n] '
    IFS= read -r answer || { echo && return; }
    case $answer in
      '' | [Yy] | [Yy][Ee][Ss]) break ;;
      [Nn] | [Nn][Oo]) return ;;
      *) say "\"$answer\" is no answer; accepted: y or n, or nothing for y" ;;
    esac
  done
  (cd "$repository" && "$relay" install --editor claude --port "$port") \
    || say 'it was not connected; above is why. relay is started all the same'
}

# --- The modes: without panes here, with panes in start/panes.sh -----------------------------------------------------

# What relay is started with; the token is in the environment.
set_serve() {
  serve=("$relay" serve --port "$port")
  [[ $host == "$default_host" ]] || serve+=(--host "$host")
  [[ $roles == "$default_roles" ]] || serve+=(--roles "$roles")
}

run_manual() {
  local role file part variables=''
  say 'open a terminal for each role; once relay is ready, start an agent in each, with its prompt as the first message'
  for role in ${roles//,/ }; do
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
  [[ $port == 7331 ]] || variables="RELAY_PORT=$port"
  [[ -z ${RELAY_TOKEN:-} ]] || variables+="${variables:+ and }RELAY_TOKEN"
  [[ -z $variables ]] || say "start each agent with $variables in its environment: the plugin finds relay by that"
  say_how_to_connect
  set_serve
  exec "${serve[@]}"
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
