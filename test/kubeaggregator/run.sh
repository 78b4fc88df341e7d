#!/bin/sh
# Runs the tests of k8s.io/kube-aggregator/pkg/apiserver that send HTTP requests, unmodified, against Kelson's aggregator and discovery. The tests
# construct unexported types of their package, so testdata/kelson.go replaces the package's own files, in a copy of the module.
#
#   test/kubeaggregator/run.sh
#
# Needs the Go command. The output is in bin/kubeaggregator/log. The exit code is 1 if a test failed.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$root/bin/kubeaggregator
rm -rf "$work"
mkdir -p "$work"
cd "$root"
cp -R "$(go list -m -f '{{.Dir}}' k8s.io/kube-aggregator)" "$work/module"
chmod -R u+w "$work/module"
package=pkg/apiserver

# Everything is replaced or left out but the interface ServiceResolver and the tests of the two handlers.
for file in apiserver apiservice_controller handler_apis handler_discovery handler_discovery_test handler_proxy metrics; do
	rm "$work/module/$package/$file.go"
done
cp "$root/test/kubeaggregator/testdata/kelson.go" "$work/module/$package/"

# The workspace, with this copy of the module.
sed "s|^\([[:space:]]*\)\./|\1$root/|; s|^\([[:space:]]*\)\.\$|\1$root|" "$root/go.work" >"$work/go.work"
echo 'replace k8s.io/kube-aggregator => ./module' >>"$work/go.work"
cp "$root/go.work.sum" "$work/go.work.sum"

# Not run: a feature gate and a metric that do not exist here; headers as the server received them last, because the aggregator's own
# requests reach the same server; handlers made without an APIService; tracing. TestGetContextForNewRequest and
# TestNewRequestForProxyWithAuditID test functions of k8s.io/apiserver.
skip='^TestProxyHandler$/^(\[-RemoteRequestHeaderUID\].*|proxy_with_user.*|fail_on_bad_serving_cert_w)$|^TestFlowControlSignal$|^TestTracerProvider$|^TestGetContextForNewRequest$|^TestNewRequestForProxyWithAuditID$'
code=0
GOWORK=$work/go.work go test -count=1 -v -vet=off -skip "$skip" "k8s.io/kube-aggregator/$package" >"$work/log" 2>&1 || code=$?
grep -E '^ *--- |^(ok|FAIL)' "$work/log" || cat "$work/log"
exit $code
