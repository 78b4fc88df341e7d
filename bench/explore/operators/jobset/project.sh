# Its webhook server runs, but the control plane does not call it, so the sample has what it would default.
module=sigs.k8s.io/jobset@v0.12.0 main=.
arguments="--leader-elect=false --config=configuration.yaml"
