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
set -m -o pipefail
exec 3>&1
terminated=
trap 'terminated=yes' INT TERM
seid_process "${@:3}" 2>&1 >&3 3>&- | forward_stderr 3>&- &
exec 2>/dev/null
trap 'terminated=yes; jobs -x kill -TERM %seid' INT TERM
if [ "$terminated" ]; then jobs -x kill -TERM %seid; fi
wait %seid
code=$?
while kill -0 %seid; do
  wait %seid
  code=$?
done
if [ "$control" ]; then stop_server; fi
[ "$handled" = "$before" ] || terminated=yes
