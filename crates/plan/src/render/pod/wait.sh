is_ready() (
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$2" >&3
  read -r -t 5 _ status _ <&3
  [ "$status" = 200 ]
)
pause() {
  if [ ! "$control" ]; then
    sleep 5
    return
  fi
  for _ in {1..25}; do
    next_command
    acknowledge
  done
}
trap 'exit 143' INT TERM
if [ "$control" ]; then start_control; fi
echo "waiting for the sidecar on port $1 to report ready"
until is_ready "$1" "$2" 2>/dev/null; do pause; done
