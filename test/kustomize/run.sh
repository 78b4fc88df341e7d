#!/bin/sh
# Tests a tree of kustomizations with two bases, a component and two overlays, on a server with simulated nodes: applied with kubectl -k, and
# built by Kustomize itself. Prints a table of the steps and writes it to docs/internals/conformance.md.
#
#   test/kustomize/run.sh
#
# Needs bin/kelson (make build), jq, and the Go command, which downloads and builds Kustomize into bin/. The output is in
# bin/kustomize/log.
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=kustomize
. "$root/test/steps.sh"

version=v5.8.1
kustomize=${KUSTOMIZE:-$work/kustomize-$version}
if [ ! -x "$kustomize" ]; then
	GOBIN=$scratch/bin GOWORK=off go install -ldflags '-s -w' "sigs.k8s.io/kustomize/kustomize/v5@$version"
	mv "$scratch/bin/kustomize" "$kustomize"
fi
kustomize() { "$kustomize" "$@"; }
cp -R "$root/test/kustomize/tree" "$scratch/tree"
cd "$scratch/tree"
got() { kubectl get $1 -o "jsonpath=$2"; }

serve

applied() {
	kubectl apply -k staging
	kubectl rollout status -n staging deployment/st-web --timeout=1m
	same "$(got '-n staging deployments,services,cronjobs -l stage=staging' '{.items[*].metadata.name}')" 'st-web st-web st-reports'
	settings=$(got '-n staging deployment/st-web' '{.spec.template.spec.containers[0].envFrom[0].configMapRef.name}')
	same "$(got "-n staging configmap/$settings" '{.data.colour}')" blue
}
step 'apply -k of an overlay over two bases: names, namespace, labels and generated names fit together, and the pods run' applied

again() {
	same "$(kubectl apply -k staging | grep -vc ' unchanged$')" 0
	same "$(kubectl diff -k staging)" ''
}
step 'Applied again: nothing is changed, and diff -k shows nothing' again

rolls() {
	before=$(got '-n staging deployment/st-web' '{.spec.template.spec.containers[0].envFrom[0].configMapRef.name}')
	sed -i 's/colour=blue/colour=green/' web/kustomization.yaml
	if changes=$(kubectl diff -k staging); then
		echo "diff sees no change" && return 1
	fi
	has "$changes" 'colour: green'
	kubectl apply -k staging
	kubectl rollout status -n staging deployment/st-web --timeout=1m
	after=$(got '-n staging deployment/st-web' '{.spec.template.spec.containers[0].envFrom[0].configMapRef.name}')
	[ "$before" != "$after" ]
	same "$(got '-n staging deployment/st-web' '{.metadata.annotations.deployment\.kubernetes\.io/revision}')" 2
}
step 'A changed setting results in a ConfigMap with another name, which diff -k shows, and in a rollout of the Deployment' rolls

built() {
	kustomize build production >"$scratch/built.yaml"
	kubectl kustomize production | diff - "$scratch/built.yaml"
	kubectl apply --server-side -f "$scratch/built.yaml"
	kubectl rollout status -n production deployment/web --timeout=1m
	same "$(got '-n production deployment/web' '{.status.readyReplicas} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].resources.limits.memory}')" \
		'3 registry.example.com/web:2 64Mi'
	same "$(got '-n production cronjob/reports' '{.spec.suspend}')" true
	same "$(kubectl get -n production configmaps -l stage=production -o json | jq -c '.items[0].data')" '{"colour":"green","size":"large"}'
}
step 'build of another overlay with a component, patches, images and replicas: equal by Kustomize and by kubectl; applied by the server' built

pruned() {
	mkdir -p set
	printf 'namespace: default\nresources: [a.yaml, b.yaml]\n' >set/kustomization.yaml
	for name in a b; do kubectl create configmap $name --dry-run=client -o yaml >set/$name.yaml; done
	export KUBECTL_APPLYSET=true
	kubectl apply -k set --prune --applyset=set -n default
	printf 'namespace: default\nresources: [a.yaml]\n' >set/kustomization.yaml
	kubectl apply -k set --prune --applyset=set -n default
	same "$(got 'configmaps -l applyset.kubernetes.io/part-of' '{.items[*].metadata.name}')" a
}
step 'apply -k --prune with an apply set deletes what is no longer in the tree' pruned

invalid() {
	mkdir -p wrong
	cat >wrong/kustomization.yaml <<-'END'
		resources: [../staging]
		patches:
		- target: {kind: Service}
		  patch: '[{"op": "replace", "path": "/spec/ports/0/port", "value": 70000}]'
	END
	refused 'spec.ports[0].port: Invalid value: 70000' kubectl apply -k wrong
	same "$(got '-n staging service/st-web' '{.spec.ports[0].port}')" 80
}
step "A patch with an invalid result is refused, with the API's error" invalid

deleted() {
	kubectl delete -k staging --ignore-not-found --timeout=1m
	kubectl delete -f "$scratch/built.yaml" --ignore-not-found --timeout=1m
	same "$(kubectl get namespaces staging production --ignore-not-found -o name)" ''
	same "$(kubectl get pods -A -o name)" ''
}
step 'delete -k and delete -f: when they return, the namespaces and everything in them are gone' deleted

record "Kustomize" "Kustomize $version and the linked-in \`kubectl -k\` on \`kelson serve\` with simulated nodes: the tree in test/kustomize/tree."
