exec seid start --home "$HOME"
