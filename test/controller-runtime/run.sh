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
suite=controller-runtime
export GOWORK=off GOFLAGS=-mod=mod

packages="pkg/builder pkg/cache pkg/client pkg/client/apiutil pkg/cluster pkg/controller pkg/controller/controllerutil pkg/envtest
	pkg/handler pkg/internal/controller pkg/internal/recorder pkg/internal/testing/controlplane pkg/manager
	pkg/manager/internal/integration pkg/metrics/filters pkg/reconcile pkg/source pkg/webhook"
all=1
[ $# -eq 0 ] || packages=$* all=

# In these specs, the suite downloads and tests an old kube-apiserver (1.28, which can disable aggregated discovery).
skip='/aggregatedDiscovery=false'

# Copy the sources, because the module cache is read-only and does not keep the executable bits of the suites' scripts.
mkdir -p "$work"
source=$(cd "$work" && go mod download -json "sigs.k8s.io/controller-runtime@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
if [ ! -e "$work/$version/go.mod" ]; then
	rm -rf "$work/$version.new"
	cp -R "$source" "$work/$version.new"
	chmod -R u+w "$work/$version.new"
	find "$work/$version.new" -name '*.sh' -exec chmod +x {} +
	mv "$work/$version.new" "$work/$version"
fi
. "$root/test/suite.sh"

test_package() { turn "$1" -test.v -test.timeout=10m -test.skip "$skip" -ginkgo.no-color; }
# shellcheck disable=SC2086
run_suites "$work/$version" $packages
if [ -n "$all" ]; then
	{
		cat <<-END
			<!-- controller-runtime: written by test/controller-runtime/run.sh -->
			## controller-runtime's own suites

			controller-runtime $version tests itself against a real API server, which envtest starts. These suites ran unchanged with
			\`KUBEBUILDER_ASSETS\` pointing to the folder that \`kelson envtest\` fills: kube-apiserver and kubectl are this binary.
			\`make controller-runtime\` runs them and writes this table; the output of each suite is in \`bin/controller-runtime\`.

		END
		timed_table
		cat <<-END

			The table counts Ginkgo specs, and Go tests without subtests; not all of them use the server. The skipped specs are those that upstream
			has marked as pending. The subtests \`aggregatedDiscovery=false\` of pkg/client/apiutil do not run, because they download
			kube-apiserver 1.28.

A few specs of pkg/cache cancel a context and expect an error, which upstream's code returns only if the cache is not filled yet at its first check, five
milliseconds after the request. On a busy machine the server may be faster; such a spec passes when the package is run again.
			<!-- end of controller-runtime -->
		END
	} >"$scratch/section"
	section "$scratch/section"
fi
exit $failed
