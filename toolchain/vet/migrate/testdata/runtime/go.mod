module sigs.k8s.io/controller-runtime

go 1.26.0

require k8s.io/client-go v0.36.0

replace k8s.io/client-go => ../clientgo
