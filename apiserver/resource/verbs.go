package resource

import "net/http"

// The verbs of requests on resources, as RequestInfo, authorization and discovery name them.
const (
	Get              = "get"
	List             = "list"
	Watch            = "watch"
	Create           = "create"
	Update           = "update"
	Patch            = "patch"
	Delete           = "delete"
	DeleteCollection = "deletecollection"
	// Proxy is the verb of paths below /api/v1/proxy, which no version of Kubernetes serves any
	// more.
	Proxy = "proxy"
)

// AllVerbs returns the verbs of a kind whose Verbs is nil, in alphabetical order.
func AllVerbs() []string {
	return []string{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch}
}

// VerbOf returns the verb of an HTTP method on one object, or "" if there is none.
func VerbOf(method string) string {
	switch method {
	case http.MethodPost:
		return Create
	case http.MethodGet, http.MethodHead:
		return Get
	case http.MethodPut:
		return Update
	case http.MethodPatch:
		return Patch
	case http.MethodDelete:
		return Delete
	}
	return ""
}

// ReadOnly reports whether a verb never writes.
func ReadOnly(verb string) bool { return verb == Get || verb == List || verb == Watch }

// Connects reports whether a subresource hands the connection over to another server or to a
// container, or streams from one. Its requests are long-running and count as CONNECT in metrics.
func Connects(subresource string) bool {
	switch subresource {
	case "attach", "exec", "log", "portforward", "proxy":
		return true
	}
	return false
}

// LongRunning reports whether a request takes as long as its client wants: a watch, a proxied
// request, or a connection.
func LongRunning(verb, subresource string) bool {
	return Connects(subresource) || verb == Watch || verb == Proxy
}
