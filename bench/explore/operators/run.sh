#!/bin/sh
# Explores operators of other projects as processes, with their own manifests and a sample of this folder.
#
#   bench/explore/operators/run.sh NAME...     NAME is a folder beside this script; FOR is how long to explore each (default 2m)
#
# A folder has project.sh, which sets the variables below, explore.yaml, and the sample. In explore.yaml, src is the project's source. The program is built
# from the Go module's source, without changes to it, with this repository's versions of controller-runtime and Kubernetes' libraries.
#   module, main  the module with its version, and the folder of its program
#   arguments     of the operator
#   environment   of the operator, as NAME=VALUE; empty: none
#
# Needs bin/kelson (make build), the Go command and openssl. The output is in bin/explore/NAME/log. The exit code is 1 if an operator could not be explored;
# alarms do not count.
set -eu

root=$(cd "$(dirname "$0")/../../.." && pwd)
export GOWORK=off GOFLAGS=-mod=mod
required() { sed -n "s|^\t$1 \(v[^ ]*\).*|\1|p" "$root/operator/adapter/go.mod"; }
runtime=$(required sigs.k8s.io/controller-runtime) kubernetes=$(required k8s.io/client-go)
failed=0
for name in "$@"; do
	work=$root/bin/explore/$name
	environment=
	. "$root/bench/explore/operators/$name/project.sh"
	mkdir -p "$work"
	cp "$root/bench/explore/operators/$name"/*.yaml "$work"
	if [ ! -x "$work/operator" ]; then
		rm -rf "$work/src"
		cp -R "$(cd "$work" && go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')" "$work/src"
		chmod -R u+w "$work/src"
		(
			cd "$work/src"
			# shellcheck disable=SC2046
			go get "sigs.k8s.io/controller-runtime@$runtime" $(sed -n "s|^\t\(k8s.io/[a-z-]*\) v0\.[1-9].*|\1@$kubernetes|p" go.mod) >"$work/build.log" 2>&1
			go build -o "$work/operator" "./$main" >>"$work/build.log" 2>&1
		) || { cat "$work/build.log" >&2 && exit 1; }
	fi
	if [ ! -e "$work/certs/tls.crt" ]; then # for webhook servers, which no one calls
		mkdir -p "$work/certs"
		openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=explore -keyout "$work/certs/tls.key" -out "$work/certs/tls.crt" 2>"$work/certs/log"
	fi
	code=0
	# shellcheck disable=SC2086
	env $environment "$root/bin/kelson" explore --binary "$work/operator" --for "${FOR:-2m}" --failure "$work/failure.json" "$work" -- $arguments >"$work/log" 2>&1 || code=$?
	echo "$name: $(grep -a '^explored' "$work/log" | tail -1)"
	grep -a -A4 '^ALARM' "$work/log" || true
	if ! grep -qa '^explored' "$work/log"; then
		tail -20 "$work/log" >&2
		failed=1
	fi
done
exit $failed
