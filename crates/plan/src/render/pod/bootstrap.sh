set -m
ended=
seid start --home "$HOME" --halt-height "$3" &
trap 'ended=yes; kill -TERM %1' TERM
wait %1
code=$?
while kill -0 %1 2>/dev/null; do
  wait %1
  code=$?
done
if [ "$ended" ]; then exit 143; fi
case "$code" in
130 | 143) exit 0 ;;
*) exit "$code" ;;
esac
