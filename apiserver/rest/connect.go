package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/serving/hijack"
)

// connect passes the request to a subresource that serves it itself (log, exec), possibly over a
// protocol other than HTTP.
func (s *scope) connect() error {
	verbs := s.on.sub.ConnectVerbs
	if verbs == nil {
		verbs = []string{http.MethodGet}
	}
	if !slices.Contains(verbs, s.in.req.Method) {
		return s.on.methodNotAllowed()
	}
	query := s.in.req.URL.Query()
	if query.Has("dryRun") {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	request := s.request(false)
	request.Fail = wire.Error
	if s.on.sub.ConnectOptions != nil { // subresources without options are reads
		var err error
		if request.Options, err = s.on.sub.ConnectOptions(s.on.withPath(query)); err != nil {
			return err
		}
		if err := s.admitConnect(request.Options); err != nil {
			return err
		}
	}
	name := s.on.name
	if s.on.sub.Object != nil {
		var err error
		if name, err = s.on.sub.Object(s.on.name); err != nil {
			return err
		}
	}
	var hub runtime.Object // stays nil if the subresource does not need the object
	if name != "" {
		var err error
		if hub, err = s.h.Get(s.in.ctx, s.on.res, s.on.namespace, name); err != nil {
			return err
		}
	}
	handler, err := s.on.sub.Connect(s.in.ctx, request, hub)
	if err != nil {
		return err
	}
	w := s.out.w
	if hijackable(w) {
		w = hijack.Writer(w)
	}
	handler.ServeHTTP(w, s.in.req.WithContext(s.in.ctx))
	return nil
}

// withPath adds the part of the path after the subresource to the query, as the option path.
func (t *target) withPath(query url.Values) url.Values {
	path := strings.Join(t.info.Parts[3:], "/")
	if path != "" {
		path = "/" + path
	}
	if strings.HasSuffix(t.info.Path, "/") && !strings.HasSuffix(path, "/") {
		path += "/"
	}
	query.Set("path", path)
	return query
}

// admitConnect runs all plugins on the options of a connection.
func (s *scope) admitConnect(options runtime.Object) error {
	admit := s.admit(false, func(admission.Operation) runtime.Object { return nil })
	if !admit.handles(admission.Connect) {
		return nil
	}
	if err := admit.admitAs(s.in.ctx, options, nil, admission.Connect); err != nil {
		return err
	}
	if validating, ok := admit.chain.(admission.ValidationInterface); ok {
		return validating.Validate(s.in.ctx, admit.attributes(options, nil, admission.Connect), s.on.interfaces())
	}
	return nil
}

// hijackable reports whether a ResponseWriter, or one that it wraps, is an [http.Hijacker].
func hijackable(w http.ResponseWriter) bool {
	for {
		inner, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			_, ok := w.(http.Hijacker)
			return ok
		}
		w = inner.Unwrap()
	}
}
