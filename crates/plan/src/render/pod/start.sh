exit "$code"
