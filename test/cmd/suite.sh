#!/usr/bin/env bash
# Runs one suite of Kubernetes' test/cmd in its own process against its own control plane. test/cmd/run.sh calls it, in the folder of
# Kubernetes' files, with
#
#   BIN       the folder with kelson, kubectl and kubectl-convert
#   SUITE     the name of the suite's function, or "runTests" for the checks that upstream makes between the suites
#   TMPDIR    an empty folder
#
# Upstream's files are sourced unchanged. Functions that are defined afterwards replace those that would start or build programs.
set -o errexit -o nounset -o pipefail

export TERM=dumb
# Upstream writes some files directly to /tmp; files from mktemp go to this suite's folder.
mktemp() {
	command mktemp "${@//#\/tmp\//$TMPDIR/}"
}
tput() { :; } # no colours
# Upstream detects GNU sed with a pipe that breaks if grep is faster than sed.
sed() {
	if [[ ${1-} == --help ]]; then echo GNU; else command sed "$@"; fi
}

source hack/lib/init.sh
THIS_PLATFORM_BIN=$BIN # where upstream looks for its binaries
source hack/lib/test.sh

# The flags that hack/make-rules/test-cmd.sh passes to kube-apiserver and kube-controller-manager. Pods never run: there is no kubelet.
flags=(--disable-admission-plugins="ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,\
ValidatingAdmissionWebhook,StorageObjectInUseProtection" --token-auth-file=hack/testdata/auth-tokens.csv --node=none
	--authorization-mode=RBAC,AlwaysAllow --client-ca-file=hack/testdata/ca/ca.crt
	--cluster-signing-cert-file=hack/testdata/ca/ca.crt --cluster-signing-key-file=hack/testdata/ca/ca.key)
"$BIN/kelson" serve --in-memory --secure-port=0 --kubeconfig="$TMPDIR/admin.kubeconfig" "${flags[@]}" \
	>"$TMPDIR/serve.out" 2>"$TMPDIR/serve.err" &
APISERVER_PID=$! # upstream's cleanup ends it
trap 'kill $APISERVER_PID' EXIT
until url=$(grep -o 'https://[^,]*' "$TMPDIR/serve.out"); do
	kill -0 $APISERVER_PID || { cat "$TMPDIR/serve.err" && exit 1; }
	sleep 0.02
done
export SECURE_API_PORT=${url##*:}
# kube-apiserver writes its certificate to --cert-dir, where the suites expect it.
"$BIN/kubectl" --kubeconfig="$TMPDIR/admin.kubeconfig" config view --raw -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' |
	base64 -d >"$TMPDIR/apiserver.crt"

source test/cmd/legacy-script.sh
eval "$(sed -n '/^function create_node()/,/^__EOF__/p' hack/make-rules/test-cmd.sh)"$'\n}'

kube::etcd::start() { :; } # the state is the control plane's own
make() { :; }              # run.sh has built the binaries
eval "upstream_$(declare -f record_command)"
record_command() {
	if [[ ${WHAT-} != "" ]]; then
		create_and_use_new_namespace # some suites rely on an earlier one for this
		upstream_record_command "$SUITE"
	fi
}

export KUBE_JUNIT_REPORT_DIR=$TMPDIR/junit
KUBE_TEMP=$(mktemp -d)
trap - EXIT
setup
create_node
export SUPPORTED_RESOURCES=('*')
WHAT=one
# At this point, upstream's node is minutes old and has been marked as unknown.
[[ $SUITE != run_nodes_tests ]] || sleep 62
[[ $SUITE != runTests ]] || unset WHAT
runTests
echo "SUITE PASSED"
