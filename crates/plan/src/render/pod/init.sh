set -eu
if [ ! -f "$HOME/config/genesis.json" ]; then
  seid init "$1" --chain-id "$1" --home "$HOME" --overwrite
fi
mkdir -p "$HOME/tmp"
