#!/bin/sh
# Runs the tests of k8s.io/kube-aggregator/pkg/apiserver that send HTTP requests, unmodified, against Kelson's aggregator and discovery. The tests
# construct unexported types of their package. So the script copies the module, and replaces the package's own files with testdata/kelson.go.
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

# Only the interface ServiceResolver and the tests of the two handlers remain of the package.
for file in apiserver apiservice_controller handler_apis handler_discovery handler_discovery_test handler_proxy metrics; do
	rm "$work/module/$package/$file.go"
done
cp "$root/test/kubeaggregator/testdata/kelson.go" "$work/module/$package/"

# The workspace uses this copy of the module.
sed "s|^\([[:space:]]*\)\./|\1$root/|; s|^\([[:space:]]*\)\.\$|\1$root|" "$root/go.work" >"$work/go.work"
echo 'replace k8s.io/kube-aggregator => ./module' >>"$work/go.work"
cp "$root/go.work.sum" "$work/go.work.sum"

# These tests are not run: those of a feature gate and a metric that Kelson lacks; those of the headers that the server received last, because the
# aggregator's own requests reach the same server; those of handlers without an APIService; those of tracing; and TestGetContextForNewRequest and
# TestNewRequestForProxyWithAuditID, which test functions of k8s.io/apiserver.
skip='^TestProxyHandler$/^(\[-RemoteRequestHeaderUID\].*|proxy_with_user.*|fail_on_bad_serving_cert_w)$|^TestFlowControlSignal$|^TestTracerProvider$|^TestGetContextForNewRequest$|^TestNewRequestForProxyWithAuditID$'
code=0
GOWORK=$work/go.work go test -count=1 -v -vet=off -skip "$skip" "k8s.io/kube-aggregator/$package" >"$work/log" 2>&1 || code=$?
grep -E '^ *--- |^(ok|FAIL)' "$work/log" || cat "$work/log"
exit $code
