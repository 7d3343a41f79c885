if [ "$terminated" ]; then exit 143; fi
case "$code" in
130 | 143) exit 0 ;;
*) exit "$code" ;;
esac
