package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// An endpoint describes where a kind is served.
type endpoint struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
}

// endpointOf returns where an object is served. Its kind may end in List.
func (c *restClient) endpointOf(ctx context.Context, obj runtime.Object) (endpoint, error) {
	kind, err := KindOf(obj, c.scheme)
	if err != nil {
		return endpoint{}, err
	}
	return c.served(ctx, kind, kind)
}

// endpointOfItems returns where the items of a list are served.
func (c *restClient) endpointOfItems(ctx context.Context, list ObjectList) (endpoint, error) {
	kind, err := KindOf(list, c.scheme)
	if err != nil {
		return endpoint{}, err
	}
	served := kind
	if item, ok := itemKindOf(kind); ok {
		served = item
	}
	return c.served(ctx, kind, served)
}

// served returns the endpoint of a kind, for messages of another kind.
func (c *restClient) served(ctx context.Context, kind, served schema.GroupVersionKind) (endpoint, error) {
	var err error
	var mapping *meta.RESTMapping
	if m, ok := c.mapper.(*Mapper); ok {
		mapping, err = m.mapping(ctx, served.GroupKind(), served.Version)
	} else {
		mapping, err = c.mapper.RESTMapping(served.GroupKind(), served.Version)
	}
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{kind: kind, resource: mapping.Resource,
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// forget makes the client call discovery again for the kinds of a group: their definitions may have
// been deleted and created again.
func (c *restClient) forget(group string) {
	if m, ok := c.mapper.(*Mapper); ok {
		m.forget(group)
	}
}

// path returns the path of a collection (no name), an object, or a subresource. Like client-go, it
// returns an error for a name that would change the rest of the path.
func (e endpoint) path(namespace, name, subresource string) (string, error) {
	p := "/apis/" + e.resource.Group + "/" + e.resource.Version
	if e.resource.Group == "" {
		p = "/api/" + e.resource.Version
	}
	if e.namespaced && namespace != "" {
		if err := checkSegment("namespace", namespace); err != nil {
			return "", err
		}
		p += "/namespaces/" + namespace
	}
	p += "/" + e.resource.Resource
	if name != "" {
		if err := checkSegment("resource name", name); err != nil {
			return "", err
		}
		p += "/" + name
	}
	if subresource != "" {
		if err := checkSegment("subresource", subresource); err != nil {
			return "", err
		}
		p += "/" + subresource
	}
	return p, nil
}

// checkSegment returns an error if a name is not one segment of a path.
func checkSegment(what, name string) error {
	if faults := rest.IsValidPathSegmentName(name); len(faults) > 0 {
		return fmt.Errorf("invalid %s %q: %v", what, name, faults)
	}
	return nil
}

// request returns a request for one object. key.Name may be empty only for a create.
func (c *restClient) request(method string, e endpoint, key Key, subresource string) (request, error) {
	what := e.resource.GroupResource().String()
	if key.Name == "" && (method != http.MethodPost || subresource != "") {
		return request{}, fmt.Errorf("%s %s: %w", method, what, ErrNoName)
	}
	if e.namespaced && key.Namespace == "" {
		c.forget(e.resource.Group) // the kind may have got another scope
		return request{}, fmt.Errorf("%s %s %q: %w", method, what, key.Name, ErrNoNamespace)
	}
	name := key.Name
	if method == http.MethodPost && subresource == "" {
		name = "" // the server validates the name of a new object
	}
	path, err := e.path(key.Namespace, name, subresource)
	if err != nil {
		return request{}, fmt.Errorf("%s %s: %w", method, what, err)
	}
	return request{
		method:   method,
		path:     path,
		accept:   jsonType,
		resource: e.resource.GroupResource(),
		name:     key.Name,
	}, nil
}

func (c *restClient) Get(ctx context.Context, key Key, into Object, opts ...GetOption) error {
	e, err := c.endpointOf(ctx, into)
	if err != nil {
		return fmt.Errorf("get %T %s: %w", into, key, err)
	}
	r, err := c.request(http.MethodGet, e, key, "")
	if err != nil {
		return err
	}
	r.query = NewGetOptions(opts...).query()
	r.accept = acceptOf(into, false)
	return c.exchange(ctx, r, into, e.kind)
}

func (c *restClient) List(ctx context.Context, into ObjectList, opts ...ListOption) error {
	e, err := c.endpointOfItems(ctx, into)
	if err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	o := NewListOptions(opts...)
	if err := o.checkIndexes(); err != nil {
		return fmt.Errorf("list %s: %w", e.resource.GroupResource(), err)
	}
	r, err := c.collection(http.MethodGet, e, o.Namespace)
	if err != nil {
		return fmt.Errorf("list %s: %w", e.resource.GroupResource(), err)
	}
	r.query = o.query()
	r.accept = acceptOf(into, true)
	if o.Ahead != nil {
		return c.listAhead(ctx, r, into, e.kind, o)
	}
	r.share = newSharing(o.Shared)
	return c.exchange(ctx, r, into, e.kind)
}

// collection returns a request for a collection; an empty namespace means all namespaces.
func (c *restClient) collection(method string, e endpoint, namespace string) (request, error) {
	path, err := e.path(namespace, "", "")
	return request{
		method:   method,
		path:     path,
		accept:   jsonType,
		resource: e.resource.GroupResource(),
	}, err
}

func (c *restClient) Create(ctx context.Context, obj Object, opts ...WriteOption) error {
	return c.write(ctx, http.MethodPost, "", obj, obj, NewWriteOptions(opts...))
}

func (c *restClient) Update(ctx context.Context, obj Object, opts ...WriteOption) error {
	return c.write(ctx, http.MethodPut, "", obj, obj, NewWriteOptions(opts...))
}

// write sends body to the path of obj, and fills body with the response.
func (c *restClient) write(ctx context.Context, method, subresource string, obj Object, body runtime.Object,
	o WriteOptions) error {
	e, err := c.endpointOf(ctx, obj)
	if err != nil {
		return fmt.Errorf("%s %T %s: %w", method, obj, KeyOf(obj), err)
	}
	if isMetadataOnly(body) {
		return fmt.Errorf("%s %s %s: a PartialObjectMetadata cannot be written: use Patch", method, e.kind.Kind,
			KeyOf(obj))
	}
	bodyKind := e.kind
	if body != runtime.Object(obj) {
		if bodyKind, err = KindOf(body, c.scheme); err != nil {
			return fmt.Errorf("%s %s of %T %s: %w", method, subresource, obj, KeyOf(obj), err)
		}
	}
	r, err := c.request(method, e, KeyOf(obj), subresource)
	if err != nil {
		return err
	}
	if r.body, err = (jsonCodec{}).encode(body, bodyKind); err != nil {
		return err
	}
	r.contentType, r.accept = jsonType, acceptOf(body, false)
	r.query = c.owned(o).query()
	if subresource == "" && c.sendsMessages(obj, o) {
		dropped, err := c.exchangeMessage(ctx, r, obj, e, o.Given)
		if dropped != "" {
			c.warnings(ctx, fmt.Sprintf("%s: field %s was sent but is missing from the response: the server does not know it, or has it disabled", e.kind.Kind, dropped))
		}
		return err
	}
	return c.exchangeIfKind(ctx, r, body, bodyKind, subresource != "", o.Given)
}

func (c *restClient) Patch(ctx context.Context, obj Object, patch Patch, opts ...WriteOption) error {
	return c.patch(ctx, "", obj, patch, NewWriteOptions(opts...))
}

func (c *restClient) Apply(ctx context.Context, obj Object, opts ...WriteOption) error {
	return c.patch(ctx, "", obj, applyPatch{scheme: c.scheme}, NewWriteOptions(opts...))
}

func (c *restClient) patch(ctx context.Context, subresource string, obj Object, patch Patch, o WriteOptions) error {
	e, err := c.endpointOf(ctx, obj)
	if err != nil {
		return fmt.Errorf("patch %T %s: %w", obj, KeyOf(obj), err)
	}
	r, err := c.request(http.MethodPatch, e, KeyOf(obj), subresource)
	if err != nil {
		return err
	}
	if r.body, err = patch.Data(obj); err != nil {
		return fmt.Errorf("patch %s %s: %w", e.kind.Kind, KeyOf(obj), err)
	}
	r.contentType = string(patch.Type())
	r.accept = acceptOf(obj, false)
	r.query = c.owned(o).query()
	if patch.Type() == types.ApplyPatchType && (o.Force == nil || *o.Force) {
		r.query.Set("force", "true")
	}
	if o.FieldValidation == "" && isOwnDocument(patch) {
		// Servers validate an apply only for duplicate names, and parse it a second time to do so.
		// Encoders never write duplicates. Unknown fields are an error in any case.
		r.query.Set("fieldValidation", metav1.FieldValidationIgnore)
	}
	if patch.Type() == types.ApplyPatchType && subresource == "" {
		o.New = o.New && isOwnDocument(patch) // other documents may be YAML
		return c.apply(ctx, e, r, obj, isApplyOf(patch, obj), o)
	}
	if p, ok := patch.(StatusPatch); ok && subresource == statusName {
		if done, err := c.writeStatus(ctx, e, r, obj, p, o); done {
			return err
		}
	}
	into, kind := runtime.Object(obj), e.kind
	if o.Answer != nil && subresource != "" {
		into = o.Answer
		if kind, err = KindOf(into, c.scheme); err != nil {
			return fmt.Errorf("patch %s of %s %s: %w", subresource, e.kind.Kind, KeyOf(obj), err)
		}
		r.accept = acceptOf(into, false)
	}
	return c.exchangeIfKind(ctx, r, into, kind, subresource != "", o.Given)
}

func (c *restClient) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	e, err := c.endpointOf(ctx, obj)
	if err != nil {
		return fmt.Errorf("delete %T %s: %w", obj, KeyOf(obj), err)
	}
	o := NewDeleteOptions(opts...)
	r, err := c.request(http.MethodDelete, e, KeyOf(obj), "")
	if err != nil {
		return err
	}
	if r, err = c.withDeleteOptions(r, o); err != nil {
		return err
	}
	if o.Answer != nil {
		r.accept = acceptOf(o.Answer, false)
	}
	a, err := c.read(ctx, r)
	if err != nil {
		return err
	}
	switch isStatus := a.kindIn(a.data).Kind == statusKind.Kind; {
	case isStatus && o.Status != nil:
		return a.decode(a.data, o.Status, statusKind)
	case !isStatus && o.Answer != nil:
		return a.decode(a.data, o.Answer, e.kind)
	}
	return nil
}

func (c *restClient) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	e, err := c.endpointOf(ctx, obj)
	if err != nil {
		return fmt.Errorf("delete all of %T: %w", obj, err)
	}
	o := NewDeleteAllOfOptions(opts...)
	if err := o.checkIndexes(); err != nil {
		return fmt.Errorf("delete all of %s: %w", e.resource.GroupResource(), err)
	}
	if e.namespaced && o.Namespace == "" {
		return fmt.Errorf("delete all of %s: %w", e.resource.GroupResource(), ErrNoNamespace)
	}
	r, err := c.collection(http.MethodDelete, e, o.Namespace)
	if err != nil {
		return fmt.Errorf("delete all of %s: %w", e.resource.GroupResource(), err)
	}
	if r, err = c.withDeleteOptions(r, o.DeleteOptions); err != nil {
		return err
	}
	r.query = o.ListOptions.query()
	if o.Answers != nil {
		r.accept = acceptOf(o.Answers, true)
	}
	a, err := c.read(ctx, r)
	if err != nil || o.Answers == nil || a.kindIn(a.data).Kind == statusKind.Kind {
		return err
	}
	kind := e.kind
	kind.Kind += listSuffix
	return a.decode(a.data, o.Answers, kind)
}

func (c *restClient) withDeleteOptions(r request, o DeleteOptions) (request, error) {
	body, err := json.Marshal(o.body())
	r.body, r.contentType = body, "application/json"
	return r, err
}

func (c *restClient) owned(o WriteOptions) WriteOptions {
	if o.FieldOwner == "" {
		o.FieldOwner = c.owner
	}
	return o
}

func (c *restClient) exchange(ctx context.Context, r request, into runtime.Object, kind schema.GroupVersionKind) error {
	a, err := c.read(ctx, r)
	if err != nil {
		return err
	}
	return a.decode(a.data, into, kind)
}

// exchangeIfKind is exchange with pooled memory. If check is set and the response is of another
// kind, it does not modify into: subresources can respond with other kinds (a Status for a binding,
// a Scale for a patch of scale).
//
// Responses share names and labels, and also managedFields if immutable is set.
func (c *restClient) exchangeIfKind(ctx context.Context, r request, into runtime.Object, kind schema.GroupVersionKind,
	check, immutable bool) error {
	pool := &texts
	if immutable {
		pool = &parts
	}
	r.share = pool.Get().(*sharing)
	defer pool.Put(r.share)
	if _, keeps := into.(*Encoded); !keeps {
		r.answer = answers.Get().(*bytes.Buffer)
		defer release(r.answer)
	}
	a, err := c.read(ctx, r)
	if err != nil {
		return err
	}
	if check {
		if got := a.kindIn(a.data).Kind; got != kind.Kind && got != "PartialObjectMetadata" {
			return nil
		}
	}
	return a.decode(a.data, into, kind)
}

// texts and parts hold *sharing for responses whose values callers may change, and for those that
// no caller changes. All clients share them, because a process can have thousands of clients, such
// as those of simulated nodes, that rarely send a request.
var (
	texts = sync.Pool{New: func() any { return newSharing(false) }}
	parts = sync.Pool{New: func() any { return newSharing(true) }}
)

// answers holds buffers for responses; decoders read from them and don't retain them.
var answers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, smallAnswer)) }}

// release returns a buffer to the pool.
func release(b *bytes.Buffer) {
	if b.Cap() > largeBuffer {
		return
	}
	b.Reset()
	answers.Put(b)
}
