forward_stderr() {
  trap '' INT TERM
  while IFS= read -r line || [ "$line" ]; do
    printf '%s\n' "$line" >&2
    case "$line" in
    'Error: '* | 'panic: '* | 'fatal error: '*) printf '%s\n' "$line" >"$TERMINATION_LOG" ;;
    esac
  done
}
set -m -o pipefail
exec 3>&1
terminated=
seid start --home "$HOME" "${@:3}" 2>&1 >&3 3>&- | forward_stderr 3>&- &
exec 2>/dev/null
trap 'terminated=yes; kill -TERM %1' INT TERM
wait %1
code=$?
while kill -0 %1; do
  wait %1
  code=$?
done
