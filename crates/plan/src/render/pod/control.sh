control=$OUTRIGGER_SEID_CONTROL_DIR
handled=- code=0 shell=$BASHPID
id='[A-Za-z0-9][A-Za-z0-9._-]{0,63}' end=$'(\n|$)'
read_control() {
  text=
  [ -f "$control/$1" ] && IFS= read -r -d '' -n 128 text <"$control/$1"
  [[ $text =~ $2 ]]
} 2>/dev/null
write_state() {
  printf '%s\n' "$1" >"$control/.state" && mv -f "$control/.state" "$control/state"
} 2>/dev/null
load_state() {
  if read_control state "^running ($id|-)$end"; then
    handled=${BASH_REMATCH[1]} code=137
  elif read_control state "^exited ($id|-) ([0-9]{1,3})$end"; then
    handled=${BASH_REMATCH[1]} code=${BASH_REMATCH[2]}
  fi
}
next_request() {
  read_control request "^($id) (TERM|KILL)$end" && [ "${BASH_REMATCH[1]}" != "$handled" ] &&
    handled=${BASH_REMATCH[1]} signal=${BASH_REMATCH[2]}
}
acknowledge() {
  if next_request; then write_state "exited $handled $code"; fi
}
next_command() {
  read -r -t 0.2 -u "$commands" command && return
  [ $? -gt 128 ] || sleep 0.2
  command=
}
serve_requests() {
  seid=
  while kill -0 "$shell" && [ "$command" != stop ]; do
    next_command
    if [ ! "$seid" ] && [ "$command" ]; then
      seid=$command
      write_state "running $handled"
    fi
    if [ "$seid" ] && next_request; then
      write_state "running $handled"
      kill -s "$signal" "$seid"
    fi
  done
} 2>/dev/null
start_control() {
  exec {commands}<> <(:)
  load_state
  write_state "exited $handled $code"
  acknowledge
}
start_server() {
  serve_requests >/dev/null &
  server=$!
}
stop_server() {
  echo stop >&"$commands"
  while kill -0 "$server"; do wait "$server"; done
  if read_control state "^running ($id)$end"; then handled=${BASH_REMATCH[1]}; fi
  write_state "exited $handled $code"
} 2>/dev/null
