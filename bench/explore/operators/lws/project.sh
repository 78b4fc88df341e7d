# Without its webhooks, so Pods of groups lack what they set.
module=sigs.k8s.io/lws@v0.8.0 main=cmd
arguments="--leader-elect=false --config=configuration.yaml --metrics-bind-address=0"
environment=ENABLE_WEBHOOKS=false
