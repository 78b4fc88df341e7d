#!/bin/sh
# Runs the suites of another project with its managers on the operator library's adapter, and prints a table of the results.
#
#   test/adapter/project.sh NAME [package...]     NAME is a file in test/adapter/projects, without .sh; no packages: all that it lists, and the project's
#                                                 section of docs/internals/conformance.md is written
#   test/adapter/project.sh NAME build            only builds the program twice, as bin/adapter/NAME/{plain,adapter}
#
# The suites are a copy that requires this repository's versions of controller-runtime and Kubernetes' libraries. The only other change is the import of
# ctrl.NewManager in the files that the project's file lists.
#
# A project's file sets these variables:
#   title     the project's name in the docs
#   module    its module, and version; nested: folders with modules of the same version that the program needs from the same tree
#   main      the folder of its program
#   program   a folder of this repository with the program, which is copied to main; empty: main is the project's own
#   skip      a regular expression of specs that are not run, and why, for the docs; empty: none
#   note      a sentence for the docs; empty: none
#   edited    the files that call ctrl.NewManager
#   packages  the packages with tests that start its manager; target: the target in the Makefile
#
# Needs bin/kelson (make build) or the binary in $KELSON, and the Go command. The sources are those of the Go module, or, if $SOURCES is set, of the folder
# $SOURCES/MODULE@VERSION. The suites' output is in bin/adapter/NAME/<package>.log. The exit code is 1 if a test failed.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
name=$1
shift
nested="" program="" skip="" why="" note="" target=adapter-projects
. "$root/test/adapter/projects/$name.sh"
suite=adapter-$name
work=$root/bin/adapter/$name
export GOWORK=off GOFLAGS=-mod=mod GINKGO_NO_COLOR=1
required() { sed -n "s|^\t$1 \(v[^ ]*\).*|\1|p" "$root/operator/adapter/go.mod"; }
runtime=$(required sigs.k8s.io/controller-runtime) kubernetes=$(required k8s.io/client-go)

mkdir -p "$work"
. "$root/test/suite.sh"
source() {
	if [ -d "${SOURCES:-}/$1@$version" ]; then
		echo "$SOURCES/$1@$version"
	else
		(cd "$work" && go mod download -json "$1@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
	fi
}

# kubernetes_modules prints Kubernetes' libraries in go.mod, with the version to require.
kubernetes_modules() { sed -n "s|^\t\(k8s.io/[a-z-]*\) v0\.[1-9].*|\1@$kubernetes|p" go.mod; }

# prepare copies the project to a folder, builds the unchanged program, and changes the import of ctrl.NewManager.
prepare() {
	rm -rf "$1" "$1.new"
	cp -R "$(source "$module")" "$1.new"
	chmod -R u+w "$1.new"
	for folder in $nested; do
		cp -R "$(source "$module/$folder")" "$1.new/$folder"
		chmod -R u+w "$1.new/$folder"
	done
	[ -z "$program" ] || { mkdir -p "$1.new/$main" && cp "$root/$program"/* "$1.new/$main"; }
	cd "$1.new"
	# shellcheck disable=SC2046
	turn go get "sigs.k8s.io/controller-runtime@$runtime" $(kubernetes_modules) >"$work/prepare.log" 2>&1 || { cat "$work/prepare.log" >&2 && exit 1; }
	turn go build -o "$work/plain" "./$main"
	go mod edit -replace "kelson.dev/operator=$root/operator" -replace "kelson.dev/operator/adapter=$root/operator/adapter" \
		-replace "kelson.dev/internal=$root/internal" \
		-require kelson.dev/operator@v0.0.0 -require kelson.dev/operator/adapter@v0.0.0
	for file in $edited; do
		sed -i -e 's/ctrl\.NewManager(/adapter.NewManager(/' -e '0,/^import (/s|^import (|import (\n\t"kelson.dev/operator/adapter"|' "$file"
		grep -q 'adapter.NewManager(' "$file"
	done
	mv "$1.new" "$1"
}
# Prepare the project again if its data has changed.
prepared=$(cat "$0" ${program:+"$root/$program"/*} "$root/test/adapter/projects/$name.sh" "$root/operator/adapter/go.mod" | cksum)
if [ "$(cat "$work/prepared" 2>/dev/null || true)" != "$prepared" ]; then
	(prepare "$work/$version")
	echo "$prepared" >"$work/prepared"
fi
cd "$work/$version"
if [ "${1:-}" = build ]; then
	turn go build -o "$work/adapter" "./$main"
	exit
fi
all=
[ $# -gt 0 ] || all=1
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $packages

test_package() { turn "$1" -test.v -test.timeout=15m ${skip:+-ginkgo.skip "$skip"}; }
run_suites "$work/$version" "$@"
[ -n "$all" ] || exit $failed
{
	echo "<!-- $suite: written by test/adapter/project.sh -->"
	printf "## Suites of %s, on the operator library\n\n" "$title"
	echo "The suites of $title $version ran with controller-runtime $runtime, Kubernetes' libraries $kubernetes, and \`ctrl.NewManager\` replaced"
	echo "by \`adapter.NewManager\` in $(echo "$edited" | xargs | sed 's/[^ ]*/`&`/g; s/ /, /g'). \`make $target\` runs them.${note:+ $note}"
	echo
	table
	[ -z "$skip" ] || printf '\nNot run, and counted as skipped: `%s`. %s\n' "$(echo "$skip" | sed 's/|/`, `/g')" "$why"
	echo "<!-- end of $suite -->"
} >"$scratch/section"
section "$scratch/section"
exit $failed
