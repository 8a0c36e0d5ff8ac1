# shellcheck shell=bash
# The part of start.sh that opens panes in tmux and windows in kitty, and runs in each of them. It is read by start.sh, whose
# functions and variables it uses, and does nothing by itself.

# What runs in a role's pane. tmux and kitty start it with their own environment, not with the caller's.
set_pane() {
  local name
  pane_command=(env -u RELAY_TOKEN -u RELAY_MODE -u RELAY_TMUX "PATH=$PATH" "RELAY_AGENT_COMMAND=$agent_command")
  for name in RELAY_MODE RELAY_TMUX; do
    [[ -z ${!name:-} ]] || pane_command+=("$name=${!name}")
  done
  if [[ -n ${RELAY_TOKEN:-} ]]; then
    local file
    file=$(mktemp) || fail 'the token could not be written to a file; above is why.'
    token_files+=("$file")
    printf '%s\n' "$RELAY_TOKEN" >"$file"
    pane_command+=("RELAY_TOKEN_FILE=$file")
  fi
  pane_command+=("$self" --pane "$1" "$port" "$host" "$roles" "$relay")
}

launch_tmux() {
  local rows columns size=() directory pane role hint
  read -r rows columns < <(stty size 2>/dev/null) || true
  ((${rows:-0} > 0 && ${columns:-0} > 0)) && size=(-x "$columns" -y "$rows")
  directory=${repository//\#/##} # tmux expands #-sequences there

  set_pane relay
  pane=$(tmux new-session -d -s "$session" -n lift ${size[@]+"${size[@]}"} -c "$directory" -P -F '#{pane_id}' \
    "${pane_command[@]}") \
    || fail "tmux opened no session; above is what it said. Mend that, or run: $called --manual"
  trap 'abandon tmux kill-session -t "=$session"' EXIT
  # An agent that sets its terminal's title does not change the role on the border.
  tmux set-option -w -t "$pane" pane-border-status top
  tmux set-option -w -t "$pane" pane-border-format ' #{@relay_role} '
  title_tmux_pane "$pane" relay
  await_relay tmux capture-pane -p -J -t "$pane"
  hint=$(RELAY_PORT=$port connection_hint)
  [[ -z $hint ]] || pin_to_tmux "[relay] $hint" "${columns:-80}"
  for role in ${roles//,/ }; do
    set_pane "$role"
    pane=$(tmux split-window -d -t "$pane" -c "$directory" -P -F '#{pane_id}' "${pane_command[@]}")
    title_tmux_pane "$pane" "$role"
    tmux select-layout -t "$pane" tiled
    [[ $role != "$talked_to" ]] || tmux select-pane -t "$pane"
  done
  trap - EXIT

  local show=attach-session
  [[ -z ${TMUX:-} ]] || show=switch-client
  # It also returns an error when the session is ended while it is shown, which is how a lift ends.
  tmux "$show" -t "=$session" || ! tmux has-session -t "=$session" 2>/dev/null \
    || fail "tmux could not show the session; it runs on. End it with: tmux kill-session -t $session"
  # Only now, as tmux throws away what the terminal has not taken in yet when it is attached.
  if tmux has-session -t "=$session" 2>/dev/null; then
    say "the lift runs in the tmux session $session; come back to it with: tmux attach -t $session"
    [[ -z $hint ]] || say "$hint"
  fi
}

# Keeps a text on the screen, in lines of its own at the bottom: the log, and the splits of a small window, move it out of
# relay's pane.
pin_to_tmux() {
  local line lines=1
  while IFS= read -r line && ((lines <= tmux_pinned_lines_max)); do
    line=${line//\#/##} # tmux expands #-sequences there, and % as the time
    tmux set-option -t "$session" "status-format[$lines]" "#[bg=yellow,fg=black] ${line//%/%%}"
    lines=$((lines + 1))
  done < <(printf '%s\n' "$1" | fold -s -w "$(($2 > 20 ? $2 - 2 : 80))")
  tmux set-option -t "$session" status "$lines"
}

title_tmux_pane() {
  tmux select-pane -t "$1" -T "$2"
  tmux set-option -p -t "$1" @relay_role "$2"
}

launch_kitty() {
  local tab role focus
  set_pane relay
  tab=$(kitty @ launch --type=tab --tab-title="$session" --title=relay --cwd="$repository" "${pane_command[@]}") \
    || fail "kitty opened no tab; above is what it said. Mend that, or run: $called --manual"
  # shellcheck disable=SC2064 # the window is known now
  trap "abandon kitty @ close-tab --match=window_id:$tab" EXIT
  await_relay kitty @ get-text --match="id:$tab"
  kitty @ goto-layout --match="window_id:$tab" grid || true # a user may have switched that layout off
  for role in ${roles//,/ }; do
    set_pane "$role"
    focus=(--keep-focus)
    [[ $role != "$talked_to" ]] || focus=()
    kitty @ launch --type=window --match="window_id:$tab" --location=last --title="$role" --cwd="$repository" \
      ${focus[@]+"${focus[@]}"} "${pane_command[@]}" >/dev/null
  done
  trap - EXIT

  say "the lift runs in the kitty tab $session"
  RELAY_PORT=$port say_how_to_connect
}

# An agent looks for its tools when its session starts, so relay must answer before one is started. Takes a command that
# prints what is in relay's pane.
await_relay() {
  local deadline=$((SECONDS + relay_start_seconds_max)) rounds=0 trouble=
  until describe_relay "$(own_address)" >/dev/null; do
    if ((SECONDS >= deadline)); then
      trouble="did not answer on port $port within $relay_start_seconds_max s"
    elif ((++rounds % 5 == 0)) && "$@" 2>/dev/null | grep -qF "$relay_has_ended"; then
      trouble="ended before it answered on port $port"
    fi
    if [[ -n $trouble ]]; then
      "$@" | grep . >&2 || true
      fail "relay $trouble; above is what it printed."
    fi
    sleep 0.1
  done
}

# Takes back what was opened, after something went wrong and was told.
abandon() {
  "$@" >/dev/null 2>&1 || true
  ((${#token_files[@]} == 0)) || rm -f "${token_files[@]}"
  fail 'the lift was not started, and nothing was left running; mend what is said above and run this again.'
}

# --- Inside a pane ---------------------------------------------------------------------------------------------------

# Runs relay or an agent, and then leaves a shell, so that the pane stays and shows what happened. What is started in
# that shell finds the same relay.
run_pane() {
  local role=$1 status=0 prompt
  trap : INT # Ctrl-C ends the program in the pane, not the pane
  take_token
  export RELAY_PORT=$port
  if [[ $role == relay ]]; then
    set_serve
    say_how_to_connect
    "${serve[@]}" || status=$?
    say "$relay_has_ended $status; start it again with: $(printf '%q ' "${serve[@]}")"
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
  say "start $role again with: $(printf '%q ' "$self" --pane "$role" "$port" "$host" "$roles" "$relay")"
  exec "${SHELL:-/bin/sh}"
}

# The token is in a file when the pane is opened, and in the environment when an agent is started again.
take_token() {
  [[ -n ${RELAY_TOKEN_FILE:-} ]] || return 0
  IFS= read -r RELAY_TOKEN <"$RELAY_TOKEN_FILE" || fail "the token could not be read from $RELAY_TOKEN_FILE; see above."
  rm -f "$RELAY_TOKEN_FILE"
  unset RELAY_TOKEN_FILE
  export RELAY_TOKEN
}

explain_status() {
  case $1 in
    126) echo ': it could not be run' ;;
    127) echo ': it was not found; install it, or set RELAY_AGENT_COMMAND to the command that starts your agent' ;;
  esac
}
