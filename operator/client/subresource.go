package client

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

type subresource struct {
	client *restClient
	name   string
}

func (c *restClient) Subresource(name string) SubresourceWriter { return subresource{c, name} }

func (s subresource) Get(ctx context.Context, obj Object, into runtime.Object) error {
	e, err := s.client.endpointOf(ctx, obj)
	if err != nil {
		return fmt.Errorf("get %s of %T %s: %w", s.name, obj, KeyOf(obj), err)
	}
	kind, err := KindOf(into, s.client.scheme)
	if err != nil {
		return fmt.Errorf("get %s of %T %s: %w", s.name, obj, KeyOf(obj), err)
	}
	r, err := s.client.request(http.MethodGet, e, KeyOf(obj), s.name)
	if err != nil {
		return err
	}
	return s.client.exchange(ctx, r, into, kind)
}

func (s subresource) Create(ctx context.Context, obj Object, body runtime.Object, opts ...WriteOption) error {
	return s.client.write(ctx, http.MethodPost, s.name, obj, orSelf(body, obj), NewWriteOptions(opts...))
}

func (s subresource) Update(ctx context.Context, obj Object, body runtime.Object, opts ...WriteOption) error {
	return s.client.write(ctx, http.MethodPut, s.name, obj, orSelf(body, obj), NewWriteOptions(opts...))
}

func (s subresource) Patch(ctx context.Context, obj Object, patch Patch, opts ...WriteOption) error {
	return s.client.patch(ctx, s.name, obj, patch, NewWriteOptions(opts...))
}

func (s subresource) Apply(ctx context.Context, obj Object, opts ...WriteOption) error {
	return s.client.patch(ctx, s.name, obj, applyPatch{scheme: s.client.scheme, keepStatus: true},
		NewWriteOptions(opts...))
}

func orSelf(body runtime.Object, obj Object) runtime.Object {
	if body == nil {
		return obj
	}
	return body
}
