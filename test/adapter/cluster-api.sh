#!/bin/sh
# Runs the suites of Cluster API's core manager with its manager on the operator library's adapter, and prints a table of the results.
#
#   test/adapter/cluster-api.sh [package...]      packages as core/reconcilers/machine; none: all below, and their section of docs/internals/conformance.md is written
#   test/adapter/cluster-api.sh build             only builds core/main.go twice, as bin/adapter/cluster-api/{plain,adapter}
#
# The suites are a copy that requires this repository's versions of controller-runtime and Kubernetes' libraries. The only other change is the import of
# ctrl.NewManager in core/main.go and in the suites' common setup, internal/test/envtest/environment.go.
#
# Needs bin/kelson (make build) or the binary in $KELSON, and the Go command. The suites' output is in bin/adapter/cluster-api/<package>.log. The exit code
# is 1 if a test failed.
set -eu

version=v1.14.2
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=adapter-cluster-api
work=$root/bin/adapter/cluster-api
export GOWORK=off GOFLAGS=-mod=mod GINKGO_NO_COLOR=1
required() { sed -n "s|^\t$1 \(v[^ ]*\).*|\1|p" "$root/operator/adapter/go.mod"; }
runtime=$(required sigs.k8s.io/controller-runtime) kubernetes=$(required k8s.io/client-go)

mkdir -p "$work"
. "$root/test/suite.sh"
source() { (cd "$work" && go mod download -json "$1@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p'); }
if [ ! -e "$work/$version/prepared" ]; then
	rm -rf "$work/$version" "$work/$version.new"
	cp -R "$(source sigs.k8s.io/cluster-api)" "$work/$version.new"
	chmod -R u+w "$work/$version.new"
	cp -R "$(source sigs.k8s.io/cluster-api/api)" "$work/$version.new/api"
	chmod -R u+w "$work/$version.new/api"
	cd "$work/$version.new"
	modules=
	for module in api apiextensions-apiserver apimachinery apiserver client-go cluster-bootstrap component-base streaming; do
		modules="$modules k8s.io/$module@$kubernetes"
	done
	# shellcheck disable=SC2086
	go get "sigs.k8s.io/controller-runtime@$runtime" $modules
	turn go build -o "$work/plain" ./core
	go mod edit -replace "kelson.dev/operator=$root/operator" -replace "kelson.dev/operator/adapter=$root/operator/adapter" \
		-require kelson.dev/operator@v0.0.0 -require kelson.dev/operator/adapter@v0.0.0
	for file in core/main.go internal/test/envtest/environment.go; do
		sed -i -e 's/ctrl\.NewManager(/adapter.NewManager(/' -e '0,/^import (/s|^import (|import (\n\t"kelson.dev/operator/adapter"|' "$file"
		grep -q 'adapter.NewManager(' "$file"
	done
	touch prepared
	mv "$work/$version.new" "$work/$version"
fi
cd "$work/$version"
if [ "${1:-}" = build ]; then
	turn go build -o "$work/adapter" ./core
	exit
fi
packages="controllers/clustercache core/reconcilers/cluster core/reconcilers/clusterclass core/reconcilers/clusterresourceset core/reconcilers/extensionconfig
	core/reconcilers/machine core/reconcilers/machinedeployment core/reconcilers/machinehealthcheck core/reconcilers/machinepool core/reconcilers/machineset
	core/reconcilers/topology/cluster core/webhooks/admission/test"
[ $# -eq 0 ] || packages=$*

test_package() { turn "$1" -test.v -test.timeout=15m; }
# shellcheck disable=SC2086
run_suites "$work/$version" $packages
[ $# -eq 0 ] || exit $failed
{
	echo "<!-- $suite: written by test/adapter/cluster-api.sh -->"
	printf "## Cluster API's own suites, on the operator library\n\n"
	echo "The suites of Cluster API $version's core manager ran with controller-runtime $runtime, Kubernetes' libraries $kubernetes, and \`ctrl.NewManager\` replaced"
	echo "by \`adapter.NewManager\` in \`core/main.go\` and in the suites' common setup. \`make $suite\` runs them."
	echo
	table
	echo "<!-- end of $suite -->"
} >"$scratch/section"
section "$scratch/section"
exit $failed
