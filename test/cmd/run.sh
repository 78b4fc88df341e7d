#!/usr/bin/env bash
# Runs the shell suites of Kubernetes (test/cmd of k8s.io/kubernetes, which test kubectl against a server), unchanged, on this control
# plane, and prints a table of the results.
#
#   test/cmd/run.sh                            all suites; writes their section of docs/conformance.md
#   test/cmd/run.sh -run REGEXP [-keep]        those whose names match, as run_deployment_tests; -keep leaves their folders
#   test/cmd/run.sh -list                      the suites' names
#   -jobs N                                    at once (2)
#   -timeout SECONDS                           for each suite (300)
#
# Every suite gets a server of its own, so that none depends on what another left. Needs bin/kelson (make build; or what KELSON names), the Go command, bash,
# curl, openssl, jq, diff, and script (of util-linux or bsdutils); no root. The suites' output stays in bin/test-cmd/logs.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/test/cmd
work=$root/bin/test-cmd
kelson=${KELSON:-$root/bin/kelson}
pattern=. jobs=2 limit=300 keep='' list='' partial=''
while [ $# -gt 0 ]; do
	case $1 in
	-run) pattern=$2 partial=1 && shift 2 ;;
	-jobs) jobs=$2 && shift 2 ;;
	-timeout) limit=$2 && shift 2 ;;
	-keep) keep=1 && shift ;;
	-list) list=1 && shift ;;
	*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
	esac
done
for tool in go curl openssl jq diff script; do
	command -v $tool >/dev/null || { echo "$tool is needed" >&2 && exit 2; }
done

# The version is the one that the server is built from.
cd "$root"
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
upstream=$work/$version
if [ ! -e "$upstream/hack" ]; then
	# A copy, because the module cache is read-only and has lost the executable bits of scripts.
	source=$(go mod download -json "k8s.io/kubernetes@$version" | jq -r .Dir)
	rm -rf "$upstream.new" && mkdir -p "$upstream.new"
	(cd "$source" && tar cf - hack test/cmd test/fixtures test/e2e/testing-manifests third_party/forked/shell2junit) | tar xf - -C "$upstream.new"
	chmod -R u+w "$upstream.new"
	grep -rlZ '^#!' "$upstream.new" | xargs -0 chmod +x
	mv "$upstream.new" "$upstream"
fi
suites=$(sed -n 's|^ *record_command \(run_[A-Za-z0-9_]*\)$|\1|p' "$upstream/test/cmd/legacy-script.sh")
suites=$(printf '%s\n' $suites runTests | grep -E "$pattern") || { echo "no suite matches $pattern" >&2 && exit 2; }
[ -z "$list" ] || { echo "$suites" && exit 0; }

mkdir -p "$work/logs"
scratch=$(mktemp -d "$work/run.XXXXXX")
trap '[ -n "$keep" ] || rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
# The binaries are this run's alone: they stay the same although others build.
bin=$scratch/bin
mkdir "$bin"
cp "$kelson" "$bin/kelson"
cp "$here/suite.sh" "$bin/suite.sh"
"$bin/kelson" envtest "$bin" >/dev/null
go build -o "$bin/kubectl-convert" k8s.io/kubernetes/cmd/kubectl-convert

# one suite: a line "name, outcome, seconds, why" separated by tabs, and its log
one() {
	local suite=$1 log=$work/logs/$1.log begin=$EPOCHREALTIME code=0 outcome=passed why=''
	mkdir -p "$scratch/$suite"
	# Some files have fixed names in /tmp: their suites wait for each other.
	exec 9>"$scratch/names.lock"
	case $suite in run_pod_tests | run_recursive_resources_tests) flock 9 ;; esac
	(
		cd "$upstream"
		SUITE=$suite BIN=$bin TMPDIR=$scratch/$suite \
			timeout -k 5 "$limit" bash "$bin/suite.sh" 9>&-
	) </dev/null >"$log" 2>&1 || code=$?
	exec 9>&-
	if [ $code = 124 ] || [ $code = 137 ]; then
		outcome=failed why="not done after $limit s"
	elif [ $code != 0 ] || ! grep -qx 'SUITE PASSED' "$log"; then
		outcome=failed
	fi
	[ $outcome = passed ] || cp "$scratch/$suite"/serve.err "$work/logs/$suite.serve.err" || true
	printf '%s\t%s\t%.1f\t%s\n' "$suite" "$outcome" "$(bc <<<"$EPOCHREALTIME - $begin")" "$why" >"$scratch/$suite.result"
	printf '%-8s%6.1f s  %s\n' "$outcome" "$(cut -f3 "$scratch/$suite.result")" "$suite"
	[ -n "$keep" ] || rm -rf "${scratch:?}/$suite"
}

for suite in $suites; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
	one "$suite" &
done
wait
