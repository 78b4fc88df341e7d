package rest

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
)

// target has the kind, version, subresource and object that a request names. It does not change
// after resolve, except that a create takes the name from the body. Its methods have no side
// effects.
type target struct {
	info *request.RequestInfo

	set       *resource.Set
	res       *resource.Resource
	sub       *resource.Subresource // nil: the request is for the object itself
	version   string
	kind      schema.GroupVersionKind // kind of the body, in version
	namespace string                  // "" also for a Namespace
	name      string
}

// onWatchPath reports whether the request has the old path of a watch, such as /api/v1/watch/pods.
func (t *target) onWatchPath() bool {
	if t.info.Verb != resource.Watch {
		return false
	}
	parts := strings.Split(strings.Trim(t.info.Path, "/"), "/")
	verb := 2 // after the prefix and the version
	if t.info.APIPrefix == "apis" {
		verb = 3
	}
	return len(parts) > verb && parts[verb] == resource.Watch
}

// waits reports whether objects of the kind are converted by a webhook. A conversion has no
// context, so the whole request counts as waiting for it.
func (t *target) waits() bool {
	codec, ok := t.res.Codec.(resource.Waiting)
	return ok && codec.Waits()
}

// has reports whether the kind has a verb.
func (t *target) has(verb string) bool {
	return t.res.Verbs == nil || slices.Contains(t.res.Verbs, verb)
}

// methodNotAllowed returns the 405 of the request's kind.
func (t *target) methodNotAllowed() error {
	if t.res.Behavior.DispatchByVerb {
		return apierrors.NewMethodNotSupported(t.res.GroupResource(), t.info.Verb)
	}
	return routeError(http.StatusMethodNotAllowed, "405: Method Not Allowed")
}

// allow returns the forms that objects of the kind have.
func (t *target) allow() wire.Allow {
	return wire.Allow{
		Protobuf: !t.res.Behavior.NoProtobuf, Transform: true, NoTable: t.res.Review != nil ||
			t.sub != nil && t.sub.NoTable,
	}
}
