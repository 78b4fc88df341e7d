#!/bin/sh
# Tests Helm: installs, upgrades, rolls back and uninstalls a chart with a CRD, hooks and a Deployment, on a server with simulated nodes. Then
# installs, upgrades and uninstalls the chart of a scaffolded custom API server, on a server whose pods are processes. Every
# step waits for its effects. Prints a table of the steps and writes it to docs/internals/conformance.md.
#
#   test/helm/run.sh
#
# Needs bin/kelson (make build) and the Go command, which downloads and builds Helm into bin/. The output is in bin/helm/log.
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=helm
. "$root/test/steps.sh"

version=v4.3.1
chart=$root/test/helm/chart
helm=${HELM:-$work/helm-$version}
if [ ! -x "$helm" ]; then
	(GOBIN=$scratch/bin GOWORK=off go install -ldflags '-s -w' "helm.sh/helm/v4/cmd/helm@$version")
	mv "$scratch/bin/helm" "$helm"
fi
helm() { "$helm" "$@"; }
upgrade() { helm upgrade shop "$chart" --timeout 1m "$@"; }
got() { kubectl get $1 -o "jsonpath=$2"; }
release() { helm status shop -o json | jq -r '"\(.version) \(.info.status)"'; }

serve

installs() {
	helm install shop "$chart" --wait --timeout 1m
	same "$(release)" '1 deployed'
	same "$(got deployment/shop '{.status.readyReplicas}')" 2
	same "$(got widget/shop '{.spec.size}')" 3
	same "$(got 'endpointslice -l kubernetes.io/service-name=shop' '{.items[*].endpoints[*].conditions.ready}')" 'true true'
}
step 'install --wait: the CRD, an object of it, a Deployment that is ready when it returns' installs

hooks() {
	same "$(got jobs '{.items[*].metadata.name}')" shop-welcome
	same "$(got job/shop-welcome '{.status.succeeded}')" 1
	has "$(kubectl logs job/shop-welcome)" welcome
	has "$(kubectl get events -o name --field-selector involvedObject.name=shop-prepare,reason=Completed)" event/
}
step 'Hooks that are Jobs ran before and after; one is deleted because it succeeded' hooks

applied() {
	has "$(kubectl get deployment shop -o yaml --show-managed-fields)" 'manager: helm'
	same "$(kubectl get deployment shop -o json --show-managed-fields | jq -r '.metadata.managedFields[] | select(.manager == "helm") | .operation')" Apply
}
step 'Its objects are applied by the server, and belong to the field manager helm' applied

step 'test: a hook that is a Pod' helm test shop --logs --timeout 1m

upgrades() {
	upgrade --wait --set replicas=3,message=goodbye
	same "$(release)" '2 deployed'
	same "$(got deployment/shop '{.status.readyReplicas} {.status.updatedReplicas}')" '3 3'
	same "$(got configmap/shop '{.data.message}')" goodbye
	same "$(got job/shop-migrate '{.status.succeeded}')" 1
}
step 'upgrade --wait: another template, more replicas, a hook before' upgrades

invalid() {
	refused 'spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 1' upgrade --reuse-values --set size=-1
	same "$(release)" '3 failed'
	same "$(got widget/shop '{.spec.size}')" 3
}
step "upgrade with a value that the CRD's schema rejects: the error of the server, and a failed release" invalid

broken() {
	refused 'shop-migrate' upgrade --reuse-values --set 'migrate=exit 3'
	same "$(release)" '4 failed'
	same "$(got configmap/shop '{.data.message}')" goodbye
}
step 'upgrade whose hook fails: nothing is changed, and a failed release' broken

unready() {
	refused 'rolled back' upgrade --wait --rollback-on-failure --timeout 8s --set 'command={sh,-c,exit 1}'
	has "$(release)" deployed
	kubectl rollout status deployment/shop --timeout=30s
	same "$(got deployment/shop '{.spec.template.spec.containers[0].command}')" ''
}
step 'upgrade --rollback-on-failure to pods that do not become ready: the Deployment is as before' unready

rollback() {
	helm rollback shop 1 --wait --timeout 1m
	same "$(got deployment/shop '{.status.replicas} {.status.readyReplicas}')" '2 2'
	same "$(got configmap/shop '{.data.message}')" hello
	has "$(helm history shop)" 'Rollback to 1'
}
step 'rollback --wait to the first revision' rollback

dry() {
	helm template shop "$chart" --no-hooks --set message=dry | kubectl apply --server-side --force-conflicts --dry-run=server -f -
	same "$(got configmap/shop '{.data.message}')" hello
	has "$(upgrade --dry-run=server --set message=dry)" 'message: "dry"'
}
step 'template and upgrade --dry-run=server: accepted, and nothing is changed' dry

taken() {
	kubectl create configmap other
	refused 'cannot be imported into the current release' helm install other "$chart" --no-hooks
	kubectl delete configmap other
	helm uninstall other --ignore-not-found
}
step "install over an object of another owner is refused" taken

gone() {
	helm uninstall shop --wait --timeout 1m
	same "$(kubectl get deployments,replicasets,services,configmaps,widgets,secrets -l app.kubernetes.io/managed-by=Helm -o name)" ''
	same "$(kubectl get deployments,replicasets,widgets -o name)" ''
	same "$(kubectl get secrets -l owner=helm -o name)" ''
	kubectl get crd widgets.shop.example.com
	has "$(kubectl get events -o name --field-selector involvedObject.name=shop-farewell,reason=Completed)" event/
}
step 'uninstall --wait: a hook ran before, and only the CRD remains' gone

# A custom API server, whose pods are processes of this machine. They share its ports, and the guides
# use 8443 and 8444.
kill "$server" && wait "$server" || true
rm "$KUBECONFIG"
export GOWORK=off
project=$scratch/pizza image=example.com/pizza:v1
mkdir "$project"

package() {
	cd "$project"
	"$kelson" init --plugin apiserver --domain example.com --repo example.com/pizza --kelson "$root"
	"$kelson" create api --apiserver --group restaurant --version v1alpha1 --kind Pizza
	sed -i s/8443/18443/ config/apiserver/deployment.yaml
	"$kelson" build --output image/apiserver
	"$kelson" package helm --image "$image" --output chart
	helm lint chart
}
step 'A custom API server: init, create api, build, package helm, lint' package

serve --node=process --node-image "$image=$project/image"
available() { kubectl wait --for=condition=Available --timeout=1m apiservice/v1alpha1.restaurant.example.com; }
authority() { got 'secret/pizza-authority -n pizza-system' '{.data.ca\.crt}'; }

served() {
	helm install pizza "$project/chart" --namespace pizza-system --create-namespace --wait --timeout 2m
	available
	same "$(got 'deployment/pizza -n pizza-system' '{.status.readyReplicas}')" 1
	same "$(got apiservice/v1alpha1.restaurant.example.com '{.spec.caBundle}')" "$(authority)"
	kubectl create -f "$project/config/samples/restaurant_v1alpha1_pizza.yaml"
	has "$(kubectl get pizzas)" pizza-sample
	has "$(kubectl explain pizza.spec)" foo
}
step 'install --wait: the pod is ready, its authority is in its APIService, kubectl get pizzas answers' served

upgraded() {
	before=$(authority)
	helm upgrade pizza "$project/chart" --namespace pizza-system --reuse-values --set resources.limits.memory=300Mi --wait --timeout 2m
	same "$(got 'pods -n pizza-system' '{.items[*].spec.containers[0].resources.limits.memory}')" 300Mi
	available
	same "$(authority)" "$before"
	same "$(got apiservice/v1alpha1.restaurant.example.com '{.spec.caBundle}')" "$before"
	same "$(kubectl get pizzas -o name)" pizza.restaurant.example.com/pizza-sample
}
step 'upgrade --wait: another pod with the same objects and the same authority' upgraded

removed() {
	helm uninstall pizza --namespace pizza-system --wait --timeout 1m
	same "$(kubectl get apiservices -l app.kubernetes.io/managed-by=Helm -o name)" ''
	# This reads discovery again. Until then, kubectl get sends requests for the resources in its cache.
	same "$(kubectl api-resources --api-group=restaurant.example.com -o name)" ''
	refused "doesn't have a resource type" kubectl get pizzas
	same "$(kubectl get persistentvolumeclaims -n pizza-system -o name)" persistentvolumeclaim/pizza-state
}
step 'uninstall --wait: no APIService, no kind; the volume of the objects stays' removed

again() {
	helm install pizza "$project/chart" --namespace pizza-system --wait --timeout 2m
	available
	same "$(kubectl get pizzas -o name)" pizza.restaurant.example.com/pizza-sample
}
step 'install again: the objects are there' again

record "Helm" "Helm $version installs, upgrades, rolls back and uninstalls the chart in test/helm/chart, on \`kelson serve\` with simulated nodes, and the chart of a custom API server that \`kelson package helm\` made, on \`kelson serve\` whose pods are processes."
