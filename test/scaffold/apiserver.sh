#!/bin/sh
# Tests a scaffolded custom API server, which kelson dev runs behind the cluster of $KUBECONFIG. The
# cluster's API server must run on this machine, and passes requests on. The custom API server rejects
# objects that violate its markers, and leaves no APIService and no Service when it ends. BuildKit's
# parser reads the project's Dockerfile, and the image builds without a network.
#
#   go run ./test/against -- test/scaffold/apiserver.sh
#
# Needs bin/kelson (make build) and kubectl. The scratch directory with the output of kelson dev is
# kept if the script fails.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
kelson=${KELSON:-$root/bin/kelson}
scratch=$(mktemp -d)
export GOWORK=off
dev=''
ended() {
	status=$?
	[ -z "$dev" ] || kill -INT $dev 2>/dev/null || true
	[ $status = 0 ] && rm -rf "$scratch" || { cat "$scratch/dev.log" || true; echo "failed: $scratch" >&2; }
	exit $status
}
trap ended EXIT

cd "$scratch"
mkdir pizza && cd pizza
"$kelson" init --plugin apiserver --domain example.com --repo example.com/pizza --kelson "$root"
"$kelson" create api --apiserver --group restaurant --version v1alpha1 --kind Pizza
sed -i 's|^	Foo \*string.*|	// +k8s:optional\n	// +k8s:maxLength=5\n&|' api/v1alpha1/pizza_types.go
"$kelson" generate

# These are the steps of make docker-build and the Dockerfile, without a network and a container engine.
gofmt -l . | grep . && exit 1
go vet ./...
go mod vendor -o dist/vendor
mkdir "$scratch/image"
cp -r go.mod go.sum cmd api internal "$scratch/image"
cp -r dist/vendor "$scratch/image/vendor"
(cd "$scratch/image" && CGO_ENABLED=0 GOFLAGS= GOPROXY=off GOMODCACHE=/nonexistent go build -mod=vendor -trimpath -ldflags='-s -w' -o apiserver ./cmd)
stage=$(cd "$root/test/scaffold/dockerfile" && go run . "$scratch/pizza/Dockerfile" | tail -n 1)
[ "$stage" = 'gcr.io/distroless/static:nonroot 65532:65532' ]

"$kelson" dev --kubeconfig "$KUBECONFIG" >"$scratch/dev.log" 2>&1 &
dev=$!
tries=0
until grep -q 'pizza/pizza-sample  *created' "$scratch/dev.log"; do
	kill -0 $dev
	tries=$((tries + 1)) && [ $tries -lt 600 ]
	sleep 0.5
done
kubectl wait --for=condition=Available --timeout=30s apiservice/v1alpha1.restaurant.example.com
kubectl get pizzas -o name | grep -x pizza.restaurant.example.com/pizza-sample

cat >long.yaml <<'END'
apiVersion: restaurant.example.com/v1alpha1
kind: Pizza
metadata: {name: long}
spec: {foo: longer}
END
refused=$(kubectl create -f long.yaml 2>&1) && exit 1
echo "$refused" | grep -F 'spec.foo: Too long'
kubectl auth can-i create pizzas.restaurant.example.com

kill -INT $dev
wait $dev
dev=''
left=$(kubectl get apiservices,services -A -o name | grep -e restaurant -e pizza || true)
[ -z "$left" ] || { echo "left: $left" && exit 1; }
echo 'ok: the server ran behind the cluster, and nothing is left'
