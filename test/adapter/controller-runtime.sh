#!/bin/sh
# Runs controller-runtime's own suites on the operator library's adapter, and prints a table of the results.
#
#   test/adapter/controller-runtime.sh [package...]      packages as pkg/cache; none: all, and their section of docs/internals/conformance.md is written
#
# The suites are a copy in which only constructors are replaced: cache.New, client.New and manager.New by those of package adapter, and in pkg/cluster the
# defaults of NewCache and NewClient, which manager.New uses in the suite of pkg/manager (its tests are in the package itself, so they can't import the adapter).
#
# Needs bin/kelson (make build) or the binary in $KELSON, and the Go command. The suites' output is in bin/adapter/controller-runtime/<package>.log. The exit
# code is 1 if a test failed that excluded.txt does not list.
set -eu

version=v0.25.2
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/test/adapter
work=$root/bin/adapter/controller-runtime
suite=adapter-controller-runtime
export GOWORK=off GOFLAGS=-mod=mod

packages="pkg/builder pkg/cache pkg/client pkg/cluster pkg/controller pkg/handler pkg/manager pkg/source"
all=1
[ $# -eq 0 ] || packages=$* all=

mkdir -p "$work"
source=$(cd "$work" && go mod download -json "sigs.k8s.io/controller-runtime@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
rm -rf "$work/$version"
cp -R "$source" "$work/$version"
chmod -R u+w "$work/$version"
cd "$work/$version"
find . -name '*.sh' -exec chmod +x {} +
go mod edit -replace "kelson.dev/operator=$root/operator" -replace "kelson.dev/operator/adapter=$root/operator/adapter" \
	-replace "kelson.dev/internal=$root/internal" \
	-require kelson.dev/operator@v0.0.0 -require kelson.dev/operator/adapter@v0.0.0

# import FILE PATH adds an import to a file.
import() { sed -i '0,/^import (/s|^import (|import (\n\t"'"$2"'"|' "$1"; }
# replace PATTERN REPLACEMENT FILE... replaces a constructor in the files that call it, and imports the adapter there.
replace() {
	pattern=$1 replacement=$2
	shift 2
	for file in "$@"; do
		grep -q "$pattern" "$file" || continue
		sed -i "s/$pattern/$replacement/g" "$file"
		grep -q '"kelson.dev/operator/adapter"' "$file" || import "$file" kelson.dev/operator/adapter
	done
}
sed -i -e 's/options.NewClient = client.New$/options.NewClient = func(c *rest.Config, o client.Options) (client.Client, error) { return kelson.NewClient(c, o, nil) }/' \
	-e 's/options.NewCache = cache.New$/options.NewCache = func(c *rest.Config, o cache.Options) (cache.Cache, error) { return kelson.NewCache(c, o, kelson.Config{}) }/' pkg/cluster/cluster.go
sed -i '0,/^import (/s|^import (|import (\n\tkelson "kelson.dev/operator/adapter/cluster"|' pkg/cluster/cluster.go
[ "$(grep -c 'kelson.New' pkg/cluster/cluster.go)" = 2 ] || { echo "pkg/cluster/cluster.go has changed: its defaults were not replaced"; exit 1; }
replace '\bcache\.New(' 'adapter.NewCache(' pkg/cache/*_test.go pkg/source/*_test.go pkg/client/*_test.go
replace '\bclient\.New(' 'adapter.NewClient(' pkg/client/*_test.go
replace '\bmanager\.New(' 'adapter.NewManager(' pkg/builder/*_test.go pkg/controller/*_test.go pkg/internal/controller/*_test.go pkg/source/*_test.go

. "$root/test/suite.sh"

# Lines of excluded.txt: package, tab, regular expression of specs or name of a Go test, tab, reason.
test_package() {
	skip=$(awk -F '\t' -v package="$2" '$1 == package && $2 !~ /^Test/ { printf "%s%s", sep, $2; sep = "|" }' "$here/excluded.txt")
	tests=$(awk -F '\t' -v package="$2" '$1 == package && $2 ~ /^Test/ { printf "%s^%s$", sep, $2; sep = "|" }' "$here/excluded.txt")
	turn "$1" -test.v -test.timeout=10m -ginkgo.no-color ${tests:+-test.skip "$tests"} ${skip:+-ginkgo.skip "$skip"}
}
# shellcheck disable=SC2086
run_suites "$work/$version" $packages
[ -n "$all" ] || exit $failed
{
	cat <<-END
		<!-- $suite: written by test/adapter/controller-runtime.sh -->
		## controller-runtime's own suites, on the operator library

		The same suites ran on \`kelson.dev/operator/adapter\`: calls of \`cache.New\`, \`client.New\` and \`manager.New\` in the tests, and the defaults of
		\`cluster.New\`, were replaced by the adapter's functions, and nothing else. \`make adapter-controller-runtime\` runs them.

	END
	timed_table
	printf '\nNot run, and counted as skipped, with the reason:\n\n| package | specs | why |\n|---|---|---|\n'
	awk -F '\t' '!/^#/ && NF == 3 { gsub(/\|/, "\\|", $2); printf "| %s | `%s` | %s |\n", $1, $2, $3 }' "$here/excluded.txt"
	echo "<!-- end of $suite -->"
} >"$scratch/section"
section "$scratch/section"
exit $failed
