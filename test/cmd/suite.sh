#!/usr/bin/env bash
# Runs one suite of Kubernetes' test/cmd in its own process against a control plane of its own. test/cmd/run.sh calls it, in the folder of
# Kubernetes' files, with
#
#   KELSON    the binary
#   SUITE     the name of the suite's function, or "runTests": what upstream checks between the suites
#   PORT      a free port
#   TMPDIR    an empty folder
#
# Upstream's files are sourced as they are. What they would start or build is replaced by functions that are defined after them.
set -o errexit -o nounset -o pipefail

export TERM=dumb SECURE_API_PORT=$PORT
here=$(dirname "${BASH_SOURCE[0]}")
# Upstream puts some files right into /tmp; all that mktemp names stay with this suite.
mktemp() {
	command mktemp "${@//#\/tmp\//$TMPDIR/}"
}
tput() { :; } # no colours

source hack/lib/init.sh
source hack/lib/test.sh
source test/cmd/legacy-script.sh
eval "$(sed -n '/^function create_node()/,/^__EOF__/p' hack/make-rules/test-cmd.sh)"$'\n}'

kube::etcd::start() { :; } # the state is the control plane's own
make() { :; }              # run.sh has built what is needed
eval "upstream_$(declare -f record_command)"
record_command() {
	if [[ ${WHAT-} != "" ]]; then
		upstream_record_command "$SUITE"
	fi
}

serve() {
	# shellcheck disable=SC2086
	"$KELSON" serve --in-memory --secure-port="$PORT" --kubeconfig="$TMPDIR/admin.kubeconfig" --node=none ${SERVE_FLAGS-} \
		--token-auth-file=hack/testdata/auth-tokens.csv >"$TMPDIR/serve.log" 2>&1 &
	APISERVER_PID=$!
	kube::util::wait_for_url_with_bearer_token "https://127.0.0.1:$PORT/healthz" admin-token kelson 0.05 100
	# kube-apiserver leaves its certificate in --cert-dir, where the suites look for one.
	kubectl --kubeconfig="$TMPDIR/admin.kubeconfig" config view --raw -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' |
		base64 -d >"$TMPDIR/apiserver.crt"
}

export KUBE_JUNIT_REPORT_DIR=$TMPDIR/junit
KUBE_TEMP=$(mktemp -d)
setup
serve
create_node
export SUPPORTED_RESOURCES=('*')
WHAT=one
[[ $SUITE != runTests ]] || unset WHAT
runTests
echo "SUITE PASSED"
