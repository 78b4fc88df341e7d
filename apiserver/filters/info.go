package filters

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
)

// informed puts the RequestInfo into the context.
func (c *Chain) informed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if short := withoutLongSelectors(req); short != nil {
			callOf(req).malformed = apierrors.NewRequestEntityTooLargeError(
				fmt.Sprintf("limit of selectors is %d bytes", maxSelectors))
			req = short
		}
		info, err := Info(req)
		if err != nil {
			// as kube-apiserver, which also logs it
			http.Error(w, fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: %v", req.RequestURI,
				err), http.StatusInternalServerError)
			return
		}
		// Caches must not store responses, because other users may not read them, and because they
		// become outdated quickly. Handlers may override this.
		w.Header().Set("Cache-Control", "no-cache, private")
		call := callOf(req)
		call.info, call.longRunning = info, longRunning(info) || c.cfg.LongRunning != nil && c.cfg.LongRunning(info)
		next.ServeHTTP(w, req)
	})
}

// maxSelectors limits the length of the selectors in a query. A selector of a megabyte takes as
// much processor time and memory as thousands of requests, also if the user may not list the
// objects.
const maxSelectors = 64 << 10

// withoutLongSelectors returns nil, or a copy of a request without its selectors if they are too
// long.
func withoutLongSelectors(req *http.Request) *http.Request {
	if len(req.URL.RawQuery) <= maxSelectors {
		return nil
	}
	query := req.URL.Query()
	if len(query.Get("labelSelector"))+len(query.Get("fieldSelector")) <= maxSelectors {
		return nil
	}
	query.Del("labelSelector")
	query.Del("fieldSelector")
	short := *req
	u := *req.URL
	u.RawQuery = query.Encode()
	short.URL = &u
	return &short
}

// Info parses a request's method, path and query. The result equals that of Kubernetes'
// RequestInfoFactory for the prefixes api and apis; its documentation lists the forms of paths.
func Info(req *http.Request) (*request.RequestInfo, error) {
	info := &request.RequestInfo{Path: req.URL.Path, Verb: lower(req.Method)}
	parts := segments(req.URL.Path)
	if len(parts) < 3 {
		return info, nil
	}
	switch parts[0] {
	case "api":
		info.APIPrefix, parts = parts[0], parts[1:]
	case "apis":
		info.APIPrefix = parts[0]
		if len(parts) < 4 {
			return info, nil
		}
		info.APIGroup, parts = parts[1], parts[2:]
	default:
		return info, nil
	}
	info.IsResourceRequest = true
	info.APIVersion, parts = parts[0], parts[1:]

	// deprecated: the verb precedes the resource
	inPath := parts[0] == resource.Watch || parts[0] == resource.Proxy
	if inPath {
		if len(parts) < 2 {
			return info, fmt.Errorf("unable to determine kind and namespace from url, %v", req.URL)
		}
		info.Verb, parts = parts[0], parts[1:]
	} else {
		info.Verb = resource.VerbOf(req.Method)
	}

	if parts[0] == "namespaces" && len(parts) > 1 {
		info.Namespace = parts[1]
		// A namespace is followed by a resource, or by one of its own subresources.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	info.Parts = parts
	info.Resource = parts[0]
	if len(parts) > 1 {
		info.Name = parts[1]
	}
	if len(parts) > 2 && info.Verb != resource.Proxy {
		info.Subresource = parts[2]
	}

	var query url.Values
	if req.URL.RawQuery != "" {
		query = req.URL.Query()
	}
	if info.Name == "" {
		switch info.Verb {
		case resource.Get:
			listOrWatch(info, query)
		case resource.Delete:
			info.Verb = resource.DeleteCollection
		}
	}
	if !inPath && (info.Verb == resource.List || info.Verb == resource.Watch ||
		info.Verb == resource.DeleteCollection) {
		info.FieldSelector = query.Get("fieldSelector")
		info.LabelSelector = query.Get("labelSelector")
	}
	return info, nil
}

// lower returns a method in lower case.
func lower(method string) string {
	if method == http.MethodGet { // the common case, without a call
		return "get"
	}
	return strings.ToLower(method)
}

// listOrWatch sets the verb to list or watch, and the name if a field selector requires one.
func listOrWatch(info *request.RequestInfo, query url.Values) {
	info.Verb = resource.List
	if !query.Has("watch") && !query.Has("fieldSelector") {
		return
	}
	var opts metainternalversion.ListOptions
	if err := metainternal.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, &opts); err != nil {
		// The operation reports the error. Until then the request counts as the verb that the
		// client meant.
		opts = metainternalversion.ListOptions{}
		if values := query["watch"]; len(values) > 0 {
			meant := strings.ToLower(values[0])
			opts.Watch = meant != "false" && meant != "0"
		}
	}
	if opts.Watch {
		info.Verb = resource.Watch
	}
	if opts.FieldSelector != nil {
		if name, ok := opts.FieldSelector.RequiresExactMatch("metadata.name"); ok &&
			len(content.IsPathSegmentName(name)) == 0 {
			info.Name = name
		}
	}
}

func segments(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// longRunning reports whether a request takes as long as its client wants.
func longRunning(info *request.RequestInfo) bool {
	if !info.IsResourceRequest {
		// The query of some profiles contains their duration.
		return strings.HasPrefix(info.Path, "/debug/pprof/")
	}
	return resource.LongRunning(info.Verb, info.Subresource)
}
