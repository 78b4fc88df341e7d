// Package faults makes clients fail by rule, for tests of reconcilers and of clients.
//
//	c := faults.New(real)
//	c.On(faults.Call{Verb: faults.Create, Kind: "Pod"}).Times(1).Return(faults.Conflict)
//	c.On(faults.Call{Verb: faults.Patch, Subresource: "status"}).After().Return(faults.ServerError) // executed, and the response is lost
//	c.On(faults.Call{Kind: "Secret"}).Delay(2 * time.Second)
//
// A [Client] passes calls to another client, such as that of a testenv or operatortest Env, unless
// a [Rule] matches. A [Transport] does the same with HTTP requests, and with the events of watches,
// below any client: client-go, controller-runtime or this library.
//
//	faulty := faults.NewTransport(nil)
//	config.Wrap(faulty.Wrap)
//	faulty.On(faults.Call{Verb: faults.Event, Resource: "pods"}).Skip(2).Return(faults.Cut) // the watch ends at its third event
//
// The rules are evaluated in the order of On; the first one that matches and has calls left
// applies. A rule can delay or hold a call, fail it before it is executed, or fail it afterwards,
// as if the response was lost. [Rules.Calls] lists the calls of the test.
//
// # When to use what
//
// Use a Client to test the branches of a reconciler that handle errors: which condition it sets,
// whether it retries, and which objects remain. Use a Transport for what happens below the client:
// its own retries, cut and late watches, informers, leader election. Other tests need a server:
// rules do not imitate validation, defaulting, admission, ownership of fields and garbage
// collection. operatortest and kelson.dev/lab/testenv start a real control plane in milliseconds.
//
// All methods are safe for concurrent use. Delays end with the context of the call, and take no
// real time in a testing/synctest bubble.
package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/operator/client"
)

// Verb is a method of a client.
type Verb string

// The verbs. Writes of a subresource have the verb of the write; Call.Subresource distinguishes
// them.
const (
	Get         Verb = "get"
	List        Verb = "list"
	Watch       Verb = "watch"
	Create      Verb = "create"
	Update      Verb = "update"
	Patch       Verb = "patch"
	Apply       Verb = "apply"
	Delete      Verb = "delete"
	DeleteAllOf Verb = "deletecollection"
	// Event is the arrival of an event ADDED, MODIFIED or DELETED of a watch. Only a Transport has
	// it.
	Event Verb = "event"
)

// Call describes a call, or the calls that a rule matches. In a rule, an empty field matches
// everything, and Namespace, Name and Path are patterns of path.Match.
type Call struct {
	Verb Verb
	// Kind is the kind of the object, or of the items of a list. Only calls of a Client have it.
	Kind string
	// Resource is the resource with its group: pods, deployments.apps. Only calls of a Transport
	// have it. A rule with a Resource without a group matches it in all groups.
	Resource string
	// Namespace and Name are those of the object; Name is empty for lists and for a create with
	// generateName.
	Namespace, Name string
	// Subresource is empty for the object itself. A rule with an empty Subresource matches
	// subresources too, unless Main is set.
	Subresource string
	// Main restricts a rule to calls without a subresource.
	Main bool
	// Path is the path of a request that is not for objects, such as /healthz or /apis/apps/v1.
	// The verb of such a request is the HTTP method in lower case. A rule without Path never
	// matches them.
	Path string
}

// matches reports whether a rule for c matches a call.
func (c Call) matches(call Call) bool {
	if c.Path != "" || call.Path != "" {
		return c.Path != "" && call.Path != "" && like(c.Path, call.Path) && (c.Verb == "" || c.Verb == call.Verb)
	}
	resource, _, _ := strings.Cut(call.Resource, ".")
	return (c.Verb == "" || c.Verb == call.Verb) && (c.Kind == "" || c.Kind == call.Kind) &&
		(c.Resource == "" || c.Resource == call.Resource || c.Resource == resource) &&
		(c.Subresource == "" || c.Subresource == call.Subresource) && !(c.Main && call.Subresource != "") &&
		(c.Namespace == "" || like(c.Namespace, call.Namespace)) && (c.Name == "" || like(c.Name, call.Name))
}

func like(pattern, text string) bool {
	matched, err := path.Match(pattern, text)
	if err != nil {
		panic(fmt.Sprintf("faults: pattern %q: %v", pattern, err))
	}
	return matched
}

// resource returns a name of the kind for errors.
func (c Call) resource() schema.GroupResource {
	if c.Kind != "" {
		return schema.GroupResource{Resource: c.Kind}
	}
	return schema.ParseGroupResource(c.Resource)
}

// Error makes the error of a call.
type Error func(Call) error

// Errors that servers return.
var (
	// Conflict is a 409 for an object that was modified.
	Conflict Error = func(c Call) error {
		return apierrors.NewConflict(c.resource(), c.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	// AlreadyExists is a 409 for a create.
	AlreadyExists Error = func(c Call) error { return apierrors.NewAlreadyExists(c.resource(), c.Name) }
	NotFound      Error = func(c Call) error { return apierrors.NewNotFound(c.resource(), c.Name) }
	Forbidden     Error = func(c Call) error {
		return apierrors.NewForbidden(c.resource(), c.Name, errors.New("injected"))
	}
	// ServerError is a 500.
	ServerError Error = func(Call) error { return apierrors.NewInternalError(errors.New("injected")) }
	// Unavailable is a 503 without Retry-After.
	Unavailable Error = func(Call) error { return apierrors.NewServiceUnavailable("injected") }
	// TooManyRequests is a 429.
	TooManyRequests Error = func(Call) error { return apierrors.NewTooManyRequests("injected", 1) }
	// Expired is a 410, for lists and watches.
	Expired Error = func(Call) error { return apierrors.NewResourceExpired("injected") }
	// Cut is a connection that broke.
	Cut Error = func(c Call) error {
		return fmt.Errorf("%s %s %s: %w", c.Verb, cmp.Or(c.Kind, c.Resource, c.Path), c.Name, syscall.ECONNRESET)
	}
)

// As returns an Error that is always err.
func As(err error) Error { return func(Call) error { return err } }

// Client passes calls to another client, except those that a rule fails. Create it with New. Its
// rules match by Kind.
type Client struct {
	client.Client
	Rules
}

var _ client.Client = (*Client)(nil)

// New returns a client without rules.
func New(c client.Client) *Client { return &Client{Client: c, Rules: Rules{refused: notForClient}} }

// notForClient returns why a rule does not apply to calls of a Client; "" if it applies.
func notForClient(c Call) string {
	if c.Resource != "" || c.Path != "" || c.Verb == Event {
		return "rules of a Client match by Kind; Resource, Path and Event are for a Transport"
	}
	return ""
}

// kindOf returns the kind of an object, or of the items of a list.
func (c *Client) kindOf(obj runtime.Object) string {
	list, isList := obj.(client.ObjectList)
	// Unstructured has the methods of a list, too.
	if _, isObject := obj.(client.Object); isList && !isObject {
		item, err := client.ItemOf(list, c.Scheme())
		if err != nil {
			return ""
		}
		obj = item
	}
	kind, err := client.KindOf(obj, c.Scheme())
	if err != nil {
		return ""
	}
	return kind.Kind
}

func (c *Client) call(verb Verb, obj client.Object, subresource string) Call {
	return Call{Verb: verb, Kind: c.kindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Subresource: subresource}
}

// Get implements client.Reader.
func (c *Client) Get(ctx context.Context, key client.Key, into client.Object, opts ...client.GetOption) error {
	call := Call{Verb: Get, Kind: c.kindOf(into), Namespace: key.Namespace, Name: key.Name}
	return c.do(ctx, call, func() error { return c.Client.Get(ctx, key, into, opts...) })
}

// List implements client.Reader.
func (c *Client) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	call := Call{Verb: List, Kind: c.kindOf(into), Namespace: client.NewListOptions(opts...).Namespace}
	return c.do(ctx, call, func() error { return c.Client.List(ctx, into, opts...) })
}

// Watch implements client.Watcher. Rules apply to the request, not to events.
func (c *Client) Watch(ctx context.Context, list client.ObjectList,
	opts ...client.ListOption) (w watch.Interface, err error) {
	call := Call{Verb: Watch, Kind: c.kindOf(list), Namespace: client.NewListOptions(opts...).Namespace}
	err = c.do(ctx, call, func() (err error) {
		w, err = c.Client.Watch(ctx, list, opts...)
		return err
	})
	if err != nil && w != nil {
		w.Stop()
		w = nil
	}
	return w, err
}
