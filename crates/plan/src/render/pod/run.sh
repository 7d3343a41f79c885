forward_stderr() {
  trap '' INT TERM
  while IFS= read -r line || [ "$line" ]; do
    printf '%s\n' "$line" >&2
    case "$line" in
    'Error: '* | 'panic: '* | 'fatal error: '*) printf '%s\n' "$line" >"$TERMINATION_LOG" ;;
    esac
  done
}
seid_process() {
  if [ "$control" ]; then
    echo "$BASHPID" >&"$commands"
    exec {commands}>&-
  fi
  exec seid start --home "$HOME" "$@"
}
before=$handled
if [ "$control" ]; then start_server; fi
set -m
terminated=
trap 'terminated=yes' INT TERM
exec {forwarded}<> <(:)
exec {errors}> >(forward_stderr; echo >&"$forwarded")
exec 2>/dev/null
seid_process "${@:3}" 2>&"$errors" {errors}>&- {forwarded}>&- &
seid=$!
exec {errors}>&-
trap 'terminated=yes; kill -TERM "$seid"' INT TERM
if [ "$terminated" ]; then kill -TERM "$seid"; fi
wait "$seid"
while kill -0 "$seid"; do wait "$seid"; done
wait "$seid"
code=$?
read -r -t 5 -u "$forwarded"
if [ "$control" ]; then stop_server; fi
[ "$handled" = "$before" ] || terminated=yes
