module example.com/shop

go 1.26.0

require (
	k8s.io/client-go v0.36.0
	sigs.k8s.io/controller-runtime v0.24.1
)

replace (
	k8s.io/client-go => ../clientgo
	sigs.k8s.io/controller-runtime => ../runtime
)
