#!/bin/sh
# Writes the files of TestStates with a kelson, before its format changes or at a release. The folder has the state of a
# server with the objects of objects.yaml and tea.yaml; kelsons that have backups and histories write those, too.
#
#   write.sh KELSON NAME     writes NAME.tar.gz next to this script
#
# Needs kubectl.
set -eu
kelson=$(realpath "$1") name=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server='' recorder=''
trap 'kill $server $recorder 2>/dev/null || true; rm -rf "$work"' EXIT
"$kelson" serve --data-dir="$work/state/data" --kubeconfig="$work/kubeconfig" --secure-port=0 >"$work/log" 2>&1 &
server=$!
for i in $(seq 100); do
	[ -s "$work/kubeconfig" ] && kubectl --kubeconfig "$work/kubeconfig" get --raw /readyz >/dev/null 2>&1 && break
	kill -0 $server || { cat "$work/log" >&2; exit 1; }
	sleep 0.2
done
export KUBECONFIG="$work/kubeconfig"
if "$kelson" record --help >/dev/null 2>&1; then
	"$kelson" record --out "$work/state/history" >/dev/null 2>&1 &
	recorder=$!
	until [ -s "$work/state/history" ]; do sleep 0.2; done
fi
kubectl apply -f "$here/objects.yaml"
kubectl wait --for=condition=Established crd/teas.shop.example.com
until kubectl apply -f "$here/tea.yaml"; do sleep 0.2; done
kubectl -n shop rollout status deployment/web --timeout=10s || true # early servers had no controllers
[ -z "$recorder" ] || { sleep 1; kill $recorder; wait $recorder || true; recorder=''; }
if "$kelson" data backup --help >/dev/null 2>&1; then "$kelson" data backup --kubeconfig "$KUBECONFIG" "$work/state/backup"; fi
kill $server
wait $server || true
server=''
tar --sort=name --owner=0 --group=0 --mtime=@0 -C "$work/state" -c . | gzip -9n >"$here/$name.tar.gz"
ls -l "$here/$name.tar.gz"
