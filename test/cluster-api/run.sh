#!/bin/sh
# Runs the test suites of Cluster API that start a control plane, unchanged, on this one, and prints a table of the results.
#
#   test/cluster-api/run.sh [package...]      packages as util/patch/test; none: all, and their table goes into docs/internals/conformance.md
#
# Needs bin/kelson (make build) or the binary in $KELSON, and the Go command, which downloads Cluster API and its dependencies. The suites'
# output is in bin/cluster-api/<package>.log; their compiled tests are kept, too. The file $LOCK is locked (flock) while a suite is
# compiled or run. The exit code is 1 if a test failed.
set -eu

version=v1.14.2
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=cluster-api
work=$root/bin/$suite
export GOWORK=off GOFLAGS=-mod=mod GINKGO_NO_COLOR=1
turn() { if [ -n "${LOCK:-}" ]; then flock "$LOCK" "$@"; else "$@"; fi; }

# A copy, because its API is a separate module, which it expects next to its other packages.
mkdir -p "$work"
source() { (cd "$work" && go mod download -json "$1@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p'); }
if [ ! -e "$work/$version/api/go.mod" ]; then
	rm -rf "$work/$version" "$work/$version.new"
	cp -R "$(source sigs.k8s.io/cluster-api)" "$work/$version.new"
	chmod -R u+w "$work/$version.new"
	cp -R "$(source sigs.k8s.io/cluster-api/api)" "$work/$version.new/api"
	chmod -R u+w "$work/$version.new/api"
	mv "$work/$version.new" "$work/$version"
fi
cd "$work/$version"
packages=$(grep -rl envtest --include='*_test.go' . | xargs -n1 dirname | sort -u | sed 's|^\./||')
[ $# -eq 0 ] || packages=$*

# The folder belongs to this run, which identifies servers that a suite left running by it and ends them.
scratch=$(mktemp -d "$work/run.XXXXXX")
KUBEBUILDER_ASSETS=$scratch/bin
export KUBEBUILDER_ASSETS
mkdir "$KUBEBUILDER_ASSETS"
cp "${KELSON:-$root/bin/kelson}" "$scratch/kelson"
"$scratch/kelson" envtest "$KUBEBUILDER_ASSETS" >/dev/null
lost() { for pid in $(pgrep -f "^$KUBEBUILDER_ASSETS/"); do kill "$pid" || true; done; }
trap 'lost; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
. "$root/test/section.sh"

failed=0
echo '| package | passed | failed | skipped | seconds |'
echo '|---|--:|--:|--:|--:|'
for package in $packages; do
	name=$(echo "$package" | tr / -)
	log=$work/$name.log
	cd "$work/$version"
	if ! turn go test -c -o "$work/$name.test" "./$package" >"$log" 2>&1; then
		echo "| $package | 0 | 1 (does not build: see $log) | 0 | 0 |" | tee -a "$scratch/rows"
		failed=1
		continue
	fi
	cd "$package"
	begin=$(date +%s)
	code=0
	turn "$work/$name.test" -test.v -test.timeout=15m >"$log" 2>&1 || code=$?
	seconds=$(($(date +%s) - begin))
	awk -v package="$package" -v code="$code" -v seconds="$seconds" -f "$root/test/controller-runtime/count.awk" "$log" >"$scratch/row" || failed=1
	tee -a "$scratch/rows" <"$scratch/row"
	lost
done
if [ $# -eq 0 ]; then
	{
		echo "<!-- $suite: written by test/$suite/run.sh -->"
		printf "## Cluster API's own suites\n\n"
		echo "Cluster API $version tests its controllers, webhooks and libraries against a real API server, which envtest starts. Here these suites ran"
		echo "unchanged with \`KUBEBUILDER_ASSETS\` pointing to the folder that \`kelson envtest\` fills. \`make $suite\` repeats it."
		printf '\n| package | passed | failed | skipped |\n|---|--:|--:|--:|\n'
		awk -F ' *\\| *' '{ printf "| %s | %s | %s | %s |\n", $2, $3, $4, $5; p += $3; f += $4; s += $5 }
			END { printf "| all | %d | %d | %d |\n", p, f, s }' "$scratch/rows"
		echo "<!-- end of $suite -->"
	} >"$scratch/section"
	section "$scratch/section"
fi
exit $failed
