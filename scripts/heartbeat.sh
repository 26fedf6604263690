# Prints a line every eight seconds until the script ends: . scripts/heartbeat.sh "installing"
(while sleep 8 >&- 2>&- && kill -0 $$ 2>&-; do echo "$1: $SECONDS seconds" >&2; done) &
trap "kill $!" EXIT
