#!/bin/sh
# Runs tests of ../../kubernetes: client-go's informers and leader election against a control plane on a TLS port. Prints a table of them and
# writes it to docs/internals/conformance.md.
#
#   test/clients/run.sh
#
# The output is in bin/client-go/log.
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=client-go script=test/clients/run.sh
. "$root/test/steps.sh"

cd "$root"
version=$(go list -m -f '{{.Version}}' k8s.io/client-go)
go test -c -o "$scratch/suite.test" ./kubernetes
cd kubernetes
tests() { "$scratch/suite.test" -test.v -test.run "^$1\$"; }
step 'An informer receives all objects, then every change once and in order, although its connection is cut' tests TestInformer
step 'A dynamic informer of a custom kind' tests TestDynamicInformer
step 'A lease changes hands when its holder resigns, and when it is not renewed in time; there is never more than one leader' tests TestLeaderElection

record "client-go" "The informers and the leader election of client-go $version, over TLS."
