// Package objects writes objects of any kind that a control plane stores, through its API.
//
// Requests pass through the whole pipeline, as those of a controller in another process do:
// authorization, admission, webhooks and audit apply to them.
//
//	c := objects.New(plane.RESTConfigAs(identity.Controller("namespace-controller")))
//	err := c.DeleteCollection(ctx, res, "team", &metav1.DeleteOptions{})
package objects

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/resource"
)

// Client writes objects as one user. It is safe for concurrent use.
type Client struct {
	transport http.RoundTripper
	userAgent string
}

// New returns a client that uses the transport and the user agent of a configuration that
// controlplane.ControlPlane.RESTConfigAs returned.
func New(config *rest.Config) *Client { return &Client{config.Transport, config.UserAgent} }

// Delete deletes an object. Its error is that of the server.
func (c *Client) Delete(ctx context.Context, res *resource.Resource, namespace, name string,
	opts *metav1.DeleteOptions) error {
	return c.send(ctx, http.MethodDelete, path(res, namespace, name), "", opts)
}

// DeleteCollection deletes the objects of a kind in a namespace, one after the other. It ends at
// the first error other than that an object does not exist any longer.
func (c *Client) DeleteCollection(ctx context.Context, res *resource.Resource, namespace string,
	opts *metav1.DeleteOptions) error {
	return c.send(ctx, http.MethodDelete, path(res, namespace, ""), "", opts)
}

// Patch applies a JSON merge patch to an object.
func (c *Client) Patch(ctx context.Context, res *resource.Resource, namespace, name string, patch []byte) error {
	return c.send(ctx, http.MethodPatch, path(res, namespace, name), string(types.MergePatchType), patch)
}

func (c *Client) send(ctx context.Context, method, path, media string, body any) error {
	answer, err := inprocess.Call{Method: method, Path: path, Body: body, ContentType: media,
		UserAgent: c.userAgent}.Open(ctx, c.transport)
	if err != nil {
		return err
	}
	defer answer.Close()
	// Closing the answer early would cancel the request.
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// path returns the path of an object or, with the name "", of a collection, in the preferred served
// version.
func path(res *resource.Resource, namespace, name string) string {
	var b strings.Builder
	if res.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/" + res.Group + "/")
	}
	b.WriteString(Version(res))
	if namespace != "" {
		b.WriteString("/namespaces/" + url.PathEscape(namespace))
	}
	b.WriteString("/" + res.Plural)
	if name != "" {
		b.WriteString("/" + url.PathEscape(name))
	}
	return b.String()
}

// Version returns the version in which requests name a kind: the storage version, if it is served,
// so that nothing is converted.
func Version(res *resource.Resource) string {
	if _, served := res.Serves(res.StorageVersion); !served && len(res.Versions) > 0 {
		return res.Versions[0].Name
	}
	return res.StorageVersion
}

// Allows reports whether the server allows a verb for a kind.
func Allows(res *resource.Resource, verb string) bool {
	return res.Verbs == nil || slices.Contains(res.Verbs, verb)
}
