# Sourced by scripts of suites: starts a server that ends with the script, runs steps that pass or fail, and writes the section of
# docs/internals/conformance.md with their results.
#
#   root=$(cd "$(dirname "$0")/../.." && pwd) suite=helm
#   . "$root/test/steps.sh"
#   serve
#   step 'What must hold' command argument...
#   record 'Helm v4' 'What was done.'
#
# Needs bin/kelson (make build) or the binary in $KELSON. The output of commands is in bin/<suite>/log.
set -eu
. "$root/test/section.sh"

kelson=${KELSON:-$root/bin/kelson}
work=$root/bin/$suite
mkdir -p "$work"
scratch=$(mktemp -d "$work/run.XXXXXX")
export KUBECONFIG="$scratch/kubeconfig" HELM_CACHE_HOME="$scratch" HELM_CONFIG_HOME="$scratch" HELM_DATA_HOME="$scratch"
log=$work/log
: >"$log"
server='' failed=0 passed=0
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" || true; }; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
# Copy the binary, so that a concurrent build does not change it.
cp "$kelson" "$scratch/kelson"
kelson=$scratch/kelson

kubectl() { "$kelson" kubectl "$@"; }

# serve FLAG... starts the server on a free port, and returns when it is ready.
serve() {
	"$kelson" serve --in-memory --secure-port 0 --kubeconfig "$KUBECONFIG" "$@" >"$work/serve.log" 2>&1 &
	server=$!
	until [ -s "$KUBECONFIG" ] && kubectl get --raw /readyz >/dev/null 2>&1; do
		kill -0 "$server" || { cat "$work/serve.log" >&2 && exit 1; }
		sleep 0.1
	done
}

# step WHAT COMMAND... prints a row of the table, and the command's output if it failed. The command may be a function, which fails if
# any command in it fails.
step() {
	what=$1
	shift
	echo "== $what" >>"$log"
	begin=$(wc -c <"$log")
	code=0
	# Do not run the command in a condition, where set -e has no effect.
	set +e
	(set -e && "$@") >>"$log" 2>&1 </dev/null
	code=$?
	set -e
	if [ $code = 0 ]; then
		passed=$((passed + 1))
		row="| $what | passed |"
	else
		failed=$((failed + 1))
		row="| $what | failed |"
		tail -c "+$((begin + 1))" "$log" | tail -n 40 >&2
	fi
	echo "$row" | tee -a "$scratch/rows"
}

# same GOT WANT fails unless both are equal.
same() { [ "$1" = "$2" ] || { echo "got:  $1" && echo "want: $2" && return 1; }; }

# has TEXT PART fails unless the text contains the part.
has() { case $1 in *"$2"*) ;; *) echo "got:  $1" && echo "want: …$2…" && return 1 ;; esac; }

# refused PART COMMAND... fails unless the command fails and its output contains the part.
refused() {
	part=$1
	shift
	if said=$("$@" 2>&1); then
		echo "it was accepted: $said" && return 1
	fi
	has "$said" "$part"
}

# record TITLE TEXT writes the suite's section of docs/internals/conformance.md and ends the script. The exit code is 1 if a step failed.
record() {
	{
		echo "<!-- $suite: written by ${script:-test/$suite/run.sh} -->"
		printf '## %s\n\n%s Run it with `make %s`.\n\n' "$1" "$2" "$suite"
		printf '**%d steps: %d passed, %d failed.**\n\n| step | result |\n|---|---|\n' $((passed + failed)) $passed $failed
		cat "$scratch/rows"
		echo "<!-- end of $suite -->"
	} >"$scratch/section"
	section "$scratch/section"
	[ $failed = 0 ]
	exit
}
