#!/bin/sh
# Takes the steps of a new user: creates a project, fills, tests, runs, deploys, packages and removes it, with the commands of the
# tutorial, on kelson serve and on kube-apiserver. Prints a table of the steps and writes it to docs/internals/conformance.md.
#
#   test/scaffold/run.sh
#
# Needs bin/kelson (make build), bin/peers (go build -o bin/peers/ ./bench/peers/... builds them), Helm (make helm builds it), git and
# the Go command. The output is in bin/scaffold/log.
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=scaffold
. "$root/test/steps.sh"

export GOWORK=off PATH="$scratch:$PATH" KELSON="$scratch/kelson"
kelson() { "$kelson" "$@"; }
project=$scratch/welcome
checkout=${KELSON_CHECKOUT:-$root}
IMG=registry.example/welcome:v1
mkdir "$project"
cd "$project"

made() {
	kelson init --domain demo.welcome.domain --repo example.com/welcome --kelson "$checkout"
	kelson edit --multigroup
	kelson create api --group webapp --kind Welcome --version v1
	kelson create api --group batch --kind CronJob --version v1
	kelson create api --group batch --kind CronJob --version v2
	kelson create api --group apps --kind SimpleDeployment --version v1
	kelson create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation
	kelson create webhook --group batch --version v1 --kind CronJob --conversion
	kelson create api --group config --version v2 --kind ProjectConfig --resource --controller=false --make=false
}
step 'init, edit --multigroup, create api for five kinds and versions, create webhook for all three webhooks' made

twice() {
	make manifests generate
	git init -q . && git add . && git -c user.name=a -c user.email=a@example.com commit -q -m all
	made
	make manifests generate
	same "$(git status --porcelain)" ''
}
step 'all of it a second time: nothing is changed' twice

compiles() {
	make build vet
	same "$(gofmt -l .)" ''
	kelson generate --check
}
step 'make build vet, gofmt, generate --check' compiles

step 'make test: each test on a control plane of its own' make test

dev() {
	said=$(kelson dev --until 'welcome/welcome-sample:{.status.conditions[0].status}=True' --timeout 3m)
	has "$said" 'reconciled'
}
step 'kelson dev: until the sample is Ready' dev

# unpack FILE DIR unpacks a txtar archive.
unpack() {
	awk -v dir="$2" '/^-- .* --$/ { file = dir "/" $2; folder = file; sub("/[^/]*$", "", folder); system("mkdir -p " folder); printf "" >file; next }
		file { print >file }' "$1"
}

kubebuilder() {
	unpack "$root/test/scaffold/kubebuilder.txtar" "$scratch/kb"
	cd "$scratch/kb"
	mkdir config/crd/bases # make manifests would create it
	go mod tidy
	kelson dev --until 'guestbook/guestbook-sample:{.status.seen}=true' --timeout 9m
	kelson dev --until 'guestbook/guestbook-sample:{.spec.foo}=by default' --timeout 1m
}
step 'kelson dev in an unchanged project of kubebuilder, with a webhook' kubebuilder

# on NAME runs the commands on the cluster of $KUBECONFIG.
on() {
	where=$1
	operator=''
	begins() {
		make manifests install
		kubectl wait --for=condition=Established crd/cronjobs.batch.demo.welcome.domain --timeout=30s
	}
	step "$where: make manifests install" begins

	runs() {
		make run >"$work/run.log" 2>&1 &
		operator=$!
		trap 'kill $operator; wait $operator || true' EXIT
		tries=0
		until grep -q 'serving webhooks' "$work/run.log" && kubectl apply -k config/samples; do
			tries=$((tries + 1)) && [ $tries -lt 120 ] || { cat "$work/run.log" && return 1; }
			sleep 1
		done
		kubectl wait --for=condition=Ready welcome/welcome-sample cronjobs.v1.batch.demo.welcome.domain/cronjob-sample simpledeployment/simpledeployment-sample --timeout=1m
		same "$(kubectl get cronjobs.v2.batch.demo.welcome.domain cronjob-sample -o 'jsonpath={.apiVersion} {.spec.foo}')" 'batch.demo.welcome.domain/v2 bar'
	}
	step "$where: make run; kubectl apply -k config/samples: all become Ready, read in both versions" runs

	deploys() {
		make deploy IMG=$IMG
		same "$(kubectl -n welcome-system get deployment welcome-controller-manager -o 'jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.serviceAccountName}')" \
			"$IMG welcome-controller-manager"
		may() { kubectl auth can-i "$@" --as=system:serviceaccount:welcome-system:welcome-controller-manager || true; }
		same "$(may update welcomes.webapp.demo.welcome.domain --subresource=status)" yes
		same "$(may delete welcomes.webapp.demo.welcome.domain)" no
		same "$(may get secrets)" no
	}
	step "$where: make deploy: its own service account with the least rights" deploys

	# Outside of a pod, the operator does not find its namespace and its token by itself.
	suffices() {
		token=$(kubectl -n welcome-system create token welcome-controller-manager)
		kubectl config view --raw -o json | jq --arg token "$token" '.users[0].user = {token: $token}' >"$scratch/as-deployed"
		bin/manager --kubeconfig "$scratch/as-deployed" --leader-elect --leader-election-namespace=welcome-system --webhook-namespace=welcome-system \
			--metrics-bind-address=127.0.0.1:0 --health-probe-bind-address=127.0.0.1:0 --webhook-bind-address=127.0.0.1:0 >"$work/deployed.log" 2>&1 &
		operator=$!
		trap 'kill $operator; wait $operator || true' EXIT
		tries=0
		until grep -q 'started leading' "$work/deployed.log" && [ "$(grep -c 'registered webhooks' "$work/deployed.log")" = 3 ]; do
			tries=$((tries + 1)) && [ $tries -lt 60 ] || { cat "$work/deployed.log" && return 1; }
			sleep 1
		done
		kubectl get secret -n welcome-system welcome-webhook-cert
		refused forbidden kubectl --kubeconfig "$scratch/as-deployed" get secrets -A
		same "$(grep -ci forbidden "$work/deployed.log" || true)" 0
	}
	step "$where: the operator as its service account leads, makes its certificate and registers its webhooks" suffices

	ends() {
		finalise &
		finaliser=$!
		trap 'kill $finaliser 2>/dev/null || true' EXIT
		make uninstall undeploy
		same "$(kubectl get crd -o name | grep welcome.domain || true)" ''
		refused NotFound kubectl get namespace welcome-system
	}
	step "$where: make uninstall undeploy: no objects remain" ends
}

# finalise does the work of the controller manager that finalizes a namespace which is being deleted.
finalise() {
	while sleep 0.5; do
		namespace=$(kubectl get namespace welcome-system -o json 2>/dev/null) || continue
		[ "$(echo "$namespace" | jq -r .status.phase)" = Terminating ] || continue
		kubectl -n welcome-system delete all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies --all >/dev/null 2>&1
		echo "$namespace" | jq '.spec.finalizers = []' | kubectl replace --raw /api/v1/namespaces/welcome-system/finalize -f - >/dev/null 2>&1
	done
}

serve
on 'kelson serve'

helm=${HELM:-$root/bin/helm/helm-v4.3.1}
charts() {
	make package IMG=$IMG
	"$helm" lint dist/chart
	"$helm" install welcome dist/chart -n welcome --create-namespace --wait --timeout 1m
	same "$(kubectl -n welcome get deployment welcome-controller-manager -o 'jsonpath={.status.readyReplicas} {.spec.template.spec.containers[0].resources.limits.memory}')" '1 128Mi'
	kubectl get crd cronjobs.batch.demo.welcome.domain
	sed -i 's|^	Foo \*string.*|&\n\n	// size is new.\n	// +optional\n	Size int32 `json:"size,omitempty"`|' api/webapp/v1/welcome_types.go
	make manifests
	kelson package helm --image registry.example/welcome:v2 --version 0.2.0
	"$helm" upgrade welcome dist/chart -n welcome --wait --timeout 1m --set replicas=2
	same "$(kubectl -n welcome get deployment welcome-controller-manager -o 'jsonpath={.status.readyReplicas} {.spec.template.spec.containers[0].image}')" '2 registry.example/welcome:v2'
	has "$(kubectl get crd welcomes.webapp.demo.welcome.domain -o json)" '"size"'
	refused "got string, want integer" "$helm" upgrade welcome dist/chart -n welcome --set replicas=two
	"$helm" uninstall welcome -n welcome --wait --timeout 1m
	kubectl get crd cronjobs.batch.demo.welcome.domain # an uninstall keeps the definitions, and so the objects
	kubectl delete crd --all
	git checkout -q . && make generate manifests
}
step 'make package: the Helm chart is installed, upgraded with a new field, validated by its schema, uninstalled' charts

installer() {
	kubectl apply --server-side -f dist/install.yaml
	kubectl -n welcome-system rollout status deployment/welcome-controller-manager --timeout=30s
	kubectl delete --ignore-not-found -f dist/install.yaml # deleting the namespace deletes most of the objects
}
step 'dist/install.yaml: applied, rolled out, deleted' installer

bundle() {
	for file in dist/bundle/manifests/*; do kubectl create --dry-run=client --validate=false -o name -f "$file" || case $file in *clusterserviceversion*) ;; *) return 1 ;; esac; done
	has "$(cat dist/bundle/manifests/welcome.clusterserviceversion.yaml)" 'serviceAccountName: welcome-controller-manager'
	has "$(cat dist/bundle/metadata/annotations.yaml)" 'operators.operatorframework.io.bundle.package.v1: welcome'
}
step 'dist/bundle: a bundle for the Operator Lifecycle Manager' bundle

image() {
	go mod vendor -o dist/vendor
	mkdir "$scratch/image"
	cp -r go.mod go.sum cmd api internal "$scratch/image"
	cp -r dist/vendor "$scratch/image/vendor"
	(cd "$scratch/image" && CGO_ENABLED=0 GOFLAGS= GOPROXY=off GOMODCACHE=/nonexistent go build -mod=vendor -trimpath -ldflags='-s -w' -o manager ./cmd)
	same "$(cd "$root/test/scaffold/dockerfile" && go run . "$project/Dockerfile" | tail -n 1)" 'gcr.io/distroless/static:nonroot 65532:65532'
}
step "Dockerfile: read by BuildKit's parser, the last stage distroless and not root; built without a network and a container engine" image

back() {
	git checkout -q . && git clean -qfd
	kelson upgrade
	for kind in webapp/v1/Welcome batch/v2/CronJob batch/v1/CronJob apps/v1/SimpleDeployment config/v2/ProjectConfig; do
		kelson delete api --group "${kind%%/*}" --kind "${kind##*/}" --version "$(echo "$kind" | cut -d/ -f2)"
	done
	same "$(find api internal config/crd config/samples config/webhook 2>/dev/null)" ''
	go vet ./...
}
step 'upgrade; delete api of every kind: the project equals a new one' back
git checkout -q . 2>/dev/null || true

kill $server && wait $server || true
server=''
(cd "$root" && GOWORK='' go build -o "$scratch/against" ./test/against)
"$scratch/against" -peers "$root/bin/peers" -- sh -c 'cp "$KUBECONFIG" '"$scratch"'/kube && sleep 3600' >"$work/against.log" 2>&1 &
server=$!
until [ -s "$scratch/kube" ]; do
	kill -0 $server || { cat "$work/against.log" >&2 && exit 1; }
	sleep 0.2
done
export KUBECONFIG=$scratch/kube
on 'kube-apiserver'

record "Scaffolding" "\`kelson init\` and \`kelson create\` create a project, which then runs through all commands on \`kelson serve\` and on kube-apiserver. There, a loop in the script finalizes namespaces, because no controller manager runs."
