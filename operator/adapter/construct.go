package adapter

import (
	"k8s.io/client-go/rest"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/adapter/cluster"
)

// NewCache is controller-runtime's cache.New with the library's informers. See package cluster for
// the differences.
func NewCache(config *rest.Config, o crcache.Options) (crcache.Cache, error) {
	c, err := cluster.NewCache(config, o, cluster.Config{OwnHTTPClient: o.HTTPClient != nil})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// NewClient is controller-runtime's client.New with the library's client. If the reader in the
// options is the result of NewCache, reads of the client see its writes.
func NewClient(config *rest.Config, o crclient.Options) (crclient.Client, error) {
	return cluster.NewClient(config, o, nil)
}
