#!/bin/sh
# Tests @kubernetes/client-node, the JavaScript client, with a server whose node runs pods as processes. Prints a table of the steps and writes it to
# docs/internals/conformance.md.
#
#   test/client-node/run.sh
#
# Needs bin/kelson (make build), and Node.js with npm, which downloads the client into bin/. The output is in bin/client-node/log.
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=client-node
. "$root/test/steps.sh"

cp "$root/test/client-node/package.json" "$root/test/client-node/package-lock.json" "$root/test/client-node/suite.js" "$work"
cd "$work"
if ! cmp -s package-lock.json node_modules/.installed; then
	npm ci --no-audit --no-fund >>"$log" 2>&1 || { tail "$log" >&2 && exit 1; }
	cp package-lock.json node_modules/.installed
fi
version=$(node -p 'require("./node_modules/@kubernetes/client-node/package.json").version')

serve --node=process
suite() { timeout 60 node suite.js "$1"; }
step "Create, read, list, replace, delete; conflicts and invalid objects with the API's error" suite crud
step 'JSON, merge and strategic merge patches' suite patch
step 'Server-side apply, its conflicts, and force' suite apply
step 'Objects of kinds without a class: a definition, and objects of it' suite objects
step 'An informer shows existing objects, and every later change' suite informer
step 'Logs of a pod' suite logs
step 'exec: standard input and both outputs, and the exit code' suite exec
step 'port-forward to a program that listens in a pod' suite portforward

record "The JavaScript client" "@kubernetes/client-node $version on \`kelson serve --node=process\`."
