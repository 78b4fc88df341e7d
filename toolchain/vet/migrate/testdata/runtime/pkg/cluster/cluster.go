package cluster

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Cluster interface {
	GetClient() client.Client
	GetCache() cache.Cache
}
