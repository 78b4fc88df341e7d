package client

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
)

// MapperIn is the mapper of the server that c reaches in a context. A client that reaches several servers says so by a method of the same name; the
// mapper of any other is Client.Mapper.
func MapperIn(ctx context.Context, c Client) (meta.RESTMapper, error) {
	if of, ok := c.(interface {
		MapperIn(context.Context) (meta.RESTMapper, error)
	}); ok {
		return of.MapperIn(ctx)
	}
	return c.Mapper(), nil
}
