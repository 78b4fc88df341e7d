package manager

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

type Manager interface {
	cluster.Cluster
	Start(ctx context.Context) error
}

type Options struct{ Cache cache.Options }

func New(config any, options Options) (Manager, error) { return nil, nil }
