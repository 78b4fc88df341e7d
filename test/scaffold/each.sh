#!/bin/sh
# Runs a command in each new project: one with an API, a controller and a webhook, and one of a custom API server.
#
#   KELSON=bin/kelson test/scaffold/each.sh golangci-lint run
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export GOWORK=off
mkdir "$scratch/project" "$scratch/server"

cd "$scratch/project"
"$KELSON" init --domain example.com --repo example.com/project --kelson "$root" >/dev/null
"$KELSON" create api --group webapp --kind Welcome --version v1 >/dev/null
"$KELSON" create webhook --group webapp --kind Welcome --version v1 --defaulting --programmatic-validation >/dev/null
echo "a new project: $*"
"$@"

cd "$scratch/server"
"$KELSON" init --plugin apiserver --domain example.com --repo example.com/server --kelson "$root" >/dev/null
"$KELSON" create api --group webapp --kind Welcome --version v1 >/dev/null
echo "a new custom API server: $*"
"$@"
