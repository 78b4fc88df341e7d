package client

import "context"

type Object interface{ GetName() string }

type SubResourceWriter interface {
	Update(ctx context.Context, obj Object) error
}

type StatusClient interface{ Status() SubResourceWriter }

type Client interface {
	Get(ctx context.Context, name string, obj Object) error
	StatusClient
}
