package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

func (s *scope) get() error {
	f, err := wire.Negotiate(s.req, s.allow())
	if err != nil {
		return err
	}
	obj, err := s.fetch()
	if err != nil {
		return err
	}
	return s.respond(http.StatusOK, f, obj)
}

// fetch reads the object of the request according to its GetOptions.
func (s *scope) fetch() (*store.Object, error) {
	var opts metav1.GetOptions
	if err := s.query(&opts); err != nil {
		return nil, err
	}
	snap, err := s.newest(opts.ResourceVersion)
	if err != nil {
		if _, parse := (storage.APIObjectVersioner{}).ParseResourceVersion(opts.ResourceVersion); parse != nil && s.res.Behavior.NotCached {
			err = apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
		}
		return nil, err
	}
	obj := snap.Get(s.res.Key(s.namespace, s.name))
	if obj == nil {
		return nil, apierrors.NewNotFound(s.res.GroupResource(), s.name)
	}
	return obj, nil
}

// newest returns a snapshot for a requested resourceVersion: for "" one with all writes that were
// acknowledged before the request, for "0" the local state, otherwise one of at least that
// revision.
func (s *scope) newest(resourceVersion string) (*store.Snapshot, error) {
	snap := s.store.Snapshot()
	if resourceVersion == "0" {
		return snap, nil
	}
	err := notOlderThan(snap, resourceVersion)
	if s.store.Follows() && (resourceVersion == "" || err != nil) {
		fresh, failure := s.store.Fresh(s.ctx)
		if failure != nil {
			return nil, unavailable(failure)
		}
		snap, err = fresh, notOlderThan(fresh, resourceVersion)
	}
	return snap, err
}

// fresh returns the state with which a write begins. If other servers write to the store, the state
// includes all their acknowledged writes; an older state could cause a wrong rejection.
func (h *Handler) fresh(ctx context.Context) (*store.Snapshot, error) {
	sn, err := h.store.Fresh(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	return sn, nil
}

// unavailable returns the error for a request that needs the other servers of the store while they
// are unreachable.
func unavailable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		// the deadline of the request passed
		return apierrors.NewTimeoutError("the newest state could not be read in time: "+err.Error(), 0)
	}
	return apierrors.NewServiceUnavailable("the newest state could not be read: " + err.Error())
}

// notOlderThan returns an error if a snapshot is older than a requested revision.
func notOlderThan(snap *store.Snapshot, resourceVersion string) error {
	if resourceVersion == "" || resourceVersion == "0" {
		return nil
	}
	revision, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	if err != nil {
		return err // only of GET, and not a Status; lists have validated it before
	}
	if revision > snap.Revision() {
		return storage.NewTooLargeResourceVersionError(revision, snap.Revision(), 1)
	}
	return nil
}

// query decodes the query of the request into options of meta.k8s.io/v1 or its internal version.
func (s *scope) query(into runtime.Object) error {
	if s.req.URL.RawQuery == "" {
		return nil
	}
	return decodeQuery(s.req.URL.Query(), into)
}

func decodeQuery(values url.Values, into runtime.Object) error {
	if err := metainternal.ParameterCodec.DecodeParameters(values, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// respond sends one stored object in the negotiated format.
func (s *scope) respond(code int, f wire.Format, obj *store.Object) error {
	return s.respondOf(code, f, obj, nil)
}

// respondOf is respond for an object that was just encoded from hub. It consumes hub, which may be
// nil.
func (s *scope) respondOf(code int, f wire.Format, obj *store.Object, hub runtime.Object) error {
	switch f.As.Kind {
	case "Table":
		return s.respondTable(code, f, metav1.ListMeta{ResourceVersion: revisionString(obj.Revision)}, []*store.Object{obj})
	case "PartialObjectMetadataList":
		return s.notList()
	}
	fm := form{res: s.res, version: s.version, media: f.Bare(), as: f.As}
	bare, err := fm.bareOf(obj, hub)
	if err != nil {
		return err
	}
	s.send(code, f, fm.kind(), bare)
	return nil
}

// notList returns the error for a request that wants one object as a list. kube-apiserver detects
// this by the Go type, or for generic objects only when it looks for items.
func (s *scope) notList() error {
	if s.res.Behavior.GenericObjects {
		return errors.New("content is not a list")
	}
	return notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (%T)", s.res.Codec.New())
}

// notAcceptable returns a 406 with the reason NotAcceptable, for which apierrors has no
// constructor.
func notAcceptable(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Message: fmt.Sprintf(format, args...),
	}}
}
