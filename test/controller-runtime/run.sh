#!/bin/sh
# Runs the test suites of controller-runtime that start a control plane, unchanged, on this one, and prints a table of the results.
#
#   test/controller-runtime/run.sh [package...]      packages as pkg/cache; none: all, and their section of docs/internals/conformance.md is written
#
# Needs bin/kelson (make build) or the binary in $KELSON, and the Go command, which downloads controller-runtime and its dependencies. The suites' output
# is in bin/controller-runtime/<package>.log. The exit code is 1 if a test failed.
set -eu

version=v0.25.2
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$root/bin/controller-runtime
kelson=${KELSON:-$root/bin/kelson}
export GOWORK=off GOFLAGS=-mod=mod

packages="pkg/builder pkg/cache pkg/client pkg/client/apiutil pkg/cluster pkg/controller pkg/controller/controllerutil pkg/envtest
	pkg/handler pkg/internal/controller pkg/internal/recorder pkg/internal/testing/controlplane pkg/manager
	pkg/manager/internal/integration pkg/metrics/filters pkg/reconcile pkg/source pkg/webhook"
all=1
[ $# -eq 0 ] || packages=$* all=

# In these specs, the suite downloads and tests an old kube-apiserver (1.28, which can disable aggregated discovery).
skip='/aggregatedDiscovery=false'

# A copy, because the module cache is read-only and has lost the executable bits of the suites' scripts.
mkdir -p "$work"
source=$(cd "$work" && go mod download -json "sigs.k8s.io/controller-runtime@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
if [ ! -e "$work/$version/go.mod" ]; then
	rm -rf "$work/$version.new"
	cp -R "$source" "$work/$version.new"
	chmod -R u+w "$work/$version.new"
	find "$work/$version.new" -name '*.sh' -exec chmod +x {} +
	mv "$work/$version.new" "$work/$version"
fi
# The folder belongs to this run, which identifies servers that a suite left running by it and ends them.
KUBEBUILDER_ASSETS=$(mktemp -d "$work/assets.XXXXXX")
export KUBEBUILDER_ASSETS
"$kelson" envtest "$KUBEBUILDER_ASSETS" >/dev/null
trap 'pkill -f "^$KUBEBUILDER_ASSETS/" || true; rm -rf "$KUBEBUILDER_ASSETS"' EXIT
trap 'exit 1' INT TERM

failed=0
rows=$KUBEBUILDER_ASSETS/rows # besides the binaries
echo '| package | passed | failed | skipped | seconds |' | tee "$rows"
echo '|---|--:|--:|--:|--:|' | tee -a "$rows"
for package in $packages; do
	name=$(echo "$package" | tr / -)
	log=$work/$name.log
	cd "$work/$version"
	if ! go test -c -o "$work/$name.test" "./$package" >"$log" 2>&1; then
		echo "| $package | does not build ||||" | tee -a "$rows"
		failed=1
		continue
	fi
	cd "$package"
	begin=$(date +%s)
	code=0
	"$work/$name.test" -test.v -test.timeout=10m -test.skip "$skip" -ginkgo.no-color >"$log" 2>&1 || code=$?
	seconds=$(($(date +%s) - begin))
	# The pipe hides the exit code of awk, which says whether all passed.
	awk -v package="$package" -v code="$code" -v seconds="$seconds" -f "$root/test/controller-runtime/count.awk" "$log" >"$rows.one" || failed=1
	tee -a "$rows" <"$rows.one"
done
awk -F '|' 'NR > 2 { passed += $3; failed += $4; skipped += $5; seconds += $6 } END { printf "| all | %d | %d | %d | %d |\n", passed, failed, skipped, seconds }' \
	"$rows" >"$rows.one"
tee -a "$rows" <"$rows.one"
if [ -n "$all" ]; then
	scratch=$KUBEBUILDER_ASSETS suite=controller-runtime
	{
		cat <<-END
			<!-- controller-runtime: written by test/controller-runtime/run.sh -->
			## controller-runtime's own suites

			controller-runtime $version tests itself against a real API server, which envtest starts. Here these suites ran unchanged with
			\`KUBEBUILDER_ASSETS\` pointing to the folder that \`kelson envtest\` fills: kube-apiserver, etcd and kubectl are all this binary.
			\`make controller-runtime\` repeats it, and writes this table; each suite's output stays in \`bin/controller-runtime\`.

		END
		cat "$rows"
		cat <<-END

			Counted are Ginkgo specs, and Go tests without subtests; not all of them talk to the server. Skipped are the specs that upstream itself
			has marked as pending. Not run are the subtests \`aggregatedDiscovery=false\` of pkg/client/apiutil: in them the suite downloads
			kube-apiserver 1.28 and tests against that one.

A few specs of pkg/cache cancel a context and expect an error, which upstream's code gives only if the cache is not filled yet when it looks for the first time, five
milliseconds after the server was asked. When the machine is busy the server may win: such a spec passes when the package is run again.
			<!-- end of controller-runtime -->
		END
	} >"$scratch/section"
	. "$root/test/section.sh"
	section "$scratch/section"
fi
exit $failed
