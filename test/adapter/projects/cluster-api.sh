target=adapter-cluster-api title="Cluster API's core manager" module=sigs.k8s.io/cluster-api version=v1.14.2 nested=api main=core
edited="core/main.go internal/test/envtest/environment.go"
packages="controllers/clustercache core/reconcilers/cluster core/reconcilers/clusterclass core/reconcilers/clusterresourceset core/reconcilers/extensionconfig
	core/reconcilers/machine core/reconcilers/machinedeployment core/reconcilers/machinehealthcheck core/reconcilers/machinepool core/reconcilers/machineset
	core/reconcilers/topology/cluster core/webhooks/admission/test"
