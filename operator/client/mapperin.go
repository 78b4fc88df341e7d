package client

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
)

// MapperIn returns the mapper of the server that c uses in a context. A client of several servers
// implements a method with the same name; for other clients, MapperIn returns Client.Mapper.
func MapperIn(ctx context.Context, c Client) (meta.RESTMapper, error) {
	if mapped, ok := c.(interface {
		MapperIn(context.Context) (meta.RESTMapper, error)
	}); ok {
		return mapped.MapperIn(ctx)
	}
	return c.Mapper(), nil
}
