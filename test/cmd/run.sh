#!/usr/bin/env bash
# Runs the shell suites of Kubernetes (test/cmd of k8s.io/kubernetes, which test kubectl against a server), unchanged, on this control
# plane, and prints a table of the results.
#
#   test/cmd/run.sh                            all suites; writes their section of docs/internals/conformance.md
#   test/cmd/run.sh -run REGEXP [-keep]        those whose names match, as run_deployment_tests; -keep leaves their folders
#   test/cmd/run.sh -list                      the suites' names
#   -jobs N                                    suites that run at once (2)
#   -timeout SECONDS                           for each suite (300)
#
# Every suite gets its own server, so that suites do not depend on each other. The exit code is 1 if one failed.
#
# Needs bin/kelson (make build) or the binary in $KELSON, the Go command, bash 5, curl, diff, jq, openssl, and script (Debian's bsdutils);
# no root. One suite reads a file from GitHub. The suites' output is in bin/test-cmd/logs.
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
for tool in go curl diff jq openssl script; do
	command -v $tool >/dev/null || { echo "$tool is needed" >&2 && exit 2; }
done

# Use the version that the server is built from.
cd "$root"
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
upstream=$work/_$version # which ./... does not reach
if [ ! -e "$upstream/hack" ]; then
	# Copy the sources, because the module cache is read-only and does not keep the executable bits of scripts.
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
# Copy the binaries, so that a concurrent build does not change them.
bin=$scratch/bin
mkdir "$bin"
cp "$kelson" "$bin/kelson"
cp "$here/suite.sh" "$bin/suite.sh"
"$bin/kelson" envtest "$bin" >/dev/null
go build -o "$bin/kubectl-convert" k8s.io/kubernetes/cmd/kubectl-convert

# one runs a suite and writes its log, and a line "name, outcome, seconds, reason" separated by tabs
one() {
	local suite=$1 log=$work/logs/$1.log begin=$EPOCHREALTIME code=0 outcome=passed why=''
	mkdir -p "$scratch/$suite"
	# Some suites use files with fixed names in /tmp; these wait for each other.
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
	# The reason for a failure is the last line that the suite printed before its call tree.
	[ $outcome = passed ] || [ -n "$why" ] || why=$(awk '/^\+\+\+ Running case: test-cmd.run_/ { on = 1 } /^!!! .*Call tree|^\+\+\+ exit code/ { if (on) exit }
		on && NF { last = $0 } END { gsub(/\|/, "\\\\|", last); print substr(last, 1, 200) }' "$log")
	printf '%s\t%s\t%.1f\t%s\n' "$suite" "$outcome" "$(awk "BEGIN { print $EPOCHREALTIME - $begin }")" "$why" >"$scratch/$suite.result"
	printf '%-8s%6.1f s  %s\n' "$outcome" "$(cut -f3 "$scratch/$suite.result")" "$suite"
	[ -n "$keep" ] || rm -rf "${scratch:?}/$suite"
}

for suite in $suites; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
	one "$suite" &
done
wait

count=$(echo "$suites" | wc -l)
cd "$scratch"
passed=$(cat ./*.result | awk -F '\t' '$2 == "passed"' | wc -l)
echo "$count suites: $passed passed, $((count - passed)) failed, in $SECONDS s"
if [ -z "$partial" ]; then
	{
		cat <<-END
			<!-- test-cmd: written by test/cmd/run.sh -->
			## Kubernetes: test/cmd

			Kubernetes' own shell suites of kubectl (\`test/cmd\` of k8s.io/kubernetes $version), unchanged, against \`kelson serve\` with the flags that
			upstream gives kube-apiserver, with the linked-in kubectl. Upstream runs them in sequence on one server; here
			each has its own server and namespace. \`runTests\` has upstream's checks between the suites. Run them with \`make test-cmd\`,
			or one with \`test/cmd/run.sh -run run_deployment_tests\`.

			**$count suites: $passed passed, $((count - passed)) failed**, in $SECONDS seconds.

			The others:

			| suite | result | seconds | why |
			|---|---|--:|---|
		END
		for suite in $suites; do
			awk -F '\t' -v known="$here/known.txt" '
				BEGIN { while ((getline line < known) > 0) { split(line, part, "\t"); why[part[1]] = part[2] } }
				$2 != "passed" { printf "| %s | %s | %s | %s |\n", $1, $2, $3, $1 in why ? why[$1] : $4 }
			' "$suite.result"
		done
		echo '<!-- end of test-cmd -->'
	} >section
	suite=test-cmd
	. "$root/test/section.sh"
	section "$scratch/section"
fi
[ "$passed" = "$count" ]
