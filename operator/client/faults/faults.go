// Package faults makes a client fail by rule, for unit tests of reconcilers.
//
//	c := faults.New(real)
//	c.On(faults.Call{Verb: faults.Create, Kind: "Pod"}).Times(1).Return(faults.Conflict)
//	c.On(faults.Call{Verb: faults.Patch, Subresource: "status"}).After().Return(faults.ServerError) // executed, and the response is lost
//	c.On(faults.Call{Kind: "Secret"}).Delay(2 * time.Second)
//
// A [Client] passes calls to another client, such as that of a testenv or operatortest Env, unless
// a [Rule] matches. The rules are asked in the order of On; the first that matches and has calls
// left decides. A rule can delay a call, fail it before the other client gets it, or fail it
// afterwards, as if the response was lost. [Client.Calls] lists the calls of the test.
//
// # When to use a real plane
//
// Use this package for the branches of a reconciler that handle errors: which condition it sets,
// whether it retries, and what it leaves behind. The rest needs a server: validation, defaulting,
// admission, ownership of fields, watches and garbage collection are what an operator meets in a
// cluster, and no rule imitates them. operatortest and kelson.dev/lab/testenv start a real control
// plane in milliseconds; for requests that fail below the client, such as cut watches, wrap the
// Transport of their rest.Config.
//
// All methods are safe for concurrent use. Delays end with the context of the call, and take no
// real time in a testing/synctest bubble.
package faults

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

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
)

// Call describes a call, or the calls that a rule matches. In a rule, an empty field matches
// everything, and Namespace and Name are patterns of path.Match.
type Call struct {
	Verb Verb
	// Kind is the kind of the object, or of the items of a list.
	Kind string
	// Namespace and Name are those of the object; Name is empty for lists.
	Namespace, Name string
	// Subresource is empty for the object itself. A rule with an empty Subresource matches
	// subresources too, unless Main is set.
	Subresource string
	// Main restricts a rule to calls without a subresource.
	Main bool
}

// matches reports whether a rule for c matches a call.
func (c Call) matches(call Call) bool {
	return (c.Verb == "" || c.Verb == call.Verb) && (c.Kind == "" || c.Kind == call.Kind) &&
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
func (c Call) resource() schema.GroupResource { return schema.GroupResource{Resource: c.Kind} }

// Error makes the error of a call.
type Error func(Call) error

// Errors that servers return.
var (
	// Conflict is a 409 for an object that was modified.
	Conflict Error = func(c Call) error {
		return apierrors.NewConflict(c.resource(), c.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	// AlreadyExists is a 409 for a create.
	AlreadyExists Error = func(c Call) error { return apierrors.NewAlreadyExists(c.resource(), c.Name) }
	NotFound      Error = func(c Call) error { return apierrors.NewNotFound(c.resource(), c.Name) }
	Forbidden     Error = func(c Call) error { return apierrors.NewForbidden(c.resource(), c.Name, errors.New("injected")) }
	// ServerError is a 500.
	ServerError Error = func(Call) error { return apierrors.NewInternalError(errors.New("injected")) }
	// Unavailable is a 503 without Retry-After.
	Unavailable Error = func(Call) error { return apierrors.NewServiceUnavailable("injected") }
	// TooManyRequests is a 429.
	TooManyRequests Error = func(Call) error { return apierrors.NewTooManyRequests("injected", 1) }
	// Expired is a 410, for lists and watches.
	Expired Error = func(Call) error { return apierrors.NewResourceExpired("injected") }
	// Cut is a connection that broke.
	Cut Error = func(c Call) error { return fmt.Errorf("%s %s %s: connection reset by peer", c.Verb, c.Kind, c.Name) }
)

// As returns an Error that is always err.
func As(err error) Error { return func(Call) error { return err } }

// Client passes calls to another client, except those that a rule fails. Create it with New.
type Client struct {
	client.Client

	mu    sync.Mutex
	rules []*Rule
	calls []Call
}

var _ client.Client = (*Client)(nil)

// New returns a client without rules.
func New(c client.Client) *Client { return &Client{Client: c} }

// On adds a rule. Without further calls of its methods, the rule matches and does nothing.
func (c *Client) On(call Call) *Rule {
	r := &Rule{of: c, on: call, left: -1}
	like(call.Namespace, "") // panics if a pattern is malformed
	like(call.Name, "")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = append(c.rules, r)
	return r
}

// Reset removes all rules and forgets the calls.
func (c *Client) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules, c.calls = nil, nil
}

// Calls returns the calls so far, in order.
func (c *Client) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Call(nil), c.calls...)
}

// Rule says what happens to calls. Its methods return the rule; they may be called at any time.
type Rule struct {
	of    *Client
	on    Call
	err   Error
	after bool
	delay time.Duration
	left  int // how many calls it applies to; negative for all
	skip  int
	hits  int
}

// Return fails the calls.
func (r *Rule) Return(err Error) *Rule { return r.set(func() { r.err = err }) }

// After makes Return fail a call after the other client has executed it.
func (r *Rule) After() *Rule { return r.set(func() { r.after = true }) }

// Delay waits before each call.
func (r *Rule) Delay(d time.Duration) *Rule { return r.set(func() { r.delay = d }) }

// Times limits the rule to the next n matching calls; later ones are passed to the rules after it.
func (r *Rule) Times(n int) *Rule { return r.set(func() { r.left = n }) }

// Skip lets the next n matching calls pass to the rules after it.
func (r *Rule) Skip(n int) *Rule { return r.set(func() { r.skip = n }) }

// Hits returns how many calls the rule applied to. A test should check it, so that a rule that
// matches nothing does not go unnoticed.
func (r *Rule) Hits() int {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	return r.hits
}

func (r *Rule) set(change func()) *Rule {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	change()
	return r
}

// decide records a call and returns a copy of the rule that applies; the zero Rule if none does.
func (c *Client) decide(call Call) Rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	for _, r := range c.rules {
		switch {
		case r.left == 0 || !r.on.matches(call):
			continue
		case r.skip > 0:
			r.skip--
			continue
		case r.left > 0:
			r.left--
		}
		r.hits++
		return *r
	}
	return Rule{}
}

// do executes a call under the rules.
func (c *Client) do(ctx context.Context, call Call, execute func() error) error {
	r := c.decide(call)
	if r.delay > 0 {
		timer := time.NewTimer(r.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.err != nil && !r.after {
		return r.err(call)
	}
	err := execute()
	if r.err != nil && err == nil {
		err = r.err(call)
	}
	return err
}

// kindOf returns the kind of an object, or of the items of a list.
func (c *Client) kindOf(obj runtime.Object) string {
	if list, ok := obj.(client.ObjectList); ok {
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
	return Call{Verb: verb, Kind: c.kindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource}
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
func (c *Client) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (w watch.Interface, err error) {
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
