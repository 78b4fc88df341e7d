package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		if _, parse := (storage.APIObjectVersioner{}).ParseResourceVersion(opts.ResourceVersion); parse != nil &&
			s.res.Behavior.NotCached {
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

// revisionWait is how long a read waits for a revision that no write has yet, as in kube-apiserver.
const revisionWait = 3 * time.Second

// newest returns a snapshot for a requested resourceVersion. For "", it has all writes that were
// acknowledged before the request; for "0", it is the local state; otherwise it has at least that
// revision.
func (s *scope) newest(resourceVersion string) (*store.Snapshot, error) {
	switch {
	case resourceVersion == "0":
		return s.store.Snapshot(), nil
	case resourceVersion != "":
		revision, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
		if err != nil {
			return nil, err // only of GET, and not a Status; lists have validated it before
		}
		return s.reached(revision)
	case s.store.Follows():
		return s.fresh(s.ctx)
	}
	return s.store.Snapshot(), nil
}

// reached returns a snapshot of at least a revision. If no write has it yet, reached waits up to
// revisionWait, except for kinds that kube-apiserver does not read from its watch cache.
func (s *scope) reached(revision uint64) (*store.Snapshot, error) {
	snap := s.store.Snapshot()
	if revision <= snap.Revision() {
		return snap, nil
	}
	snap, err := s.fresh(s.ctx)
	if err != nil {
		return nil, err
	}
	if s.res.Behavior.NotCached {
		if revision > snap.Revision() {
			return nil, storage.NewTooLargeResourceVersionError(revision, snap.Revision(), 0)
		}
		return snap, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, revisionWait)
	defer cancel()
	for revision > snap.Revision() {
		waited := s.store.Await(ctx, snap.Revision(), "")
		// a Store over a log that other servers share reaches some revisions without an event
		if snap, err = s.fresh(s.ctx); err != nil {
			return nil, err
		}
		switch {
		case waited == nil || revision <= snap.Revision():
		case ctx.Err() != nil && s.ctx.Err() == nil:
			return nil, storage.NewTooLargeResourceVersionError(revision, snap.Revision(), 1)
		default:
			return nil, waited
		}
	}
	return snap, nil
}

// fresh returns the initial state for a write. If other servers write to the store, the state
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

// respondOf is like respond, for an object that was just encoded from hub. It consumes hub, which
// may be nil.
func (s *scope) respondOf(code int, f wire.Format, obj *store.Object, hub runtime.Object) error {
	switch f.As.Kind {
	case "Table":
		return s.respondTable(code, f, metav1.ListMeta{ResourceVersion: revisionString(obj.Revision)},
			[]*store.Object{obj})
	case "PartialObjectMetadataList":
		return s.notList()
	}
	fm := form{res: s.res, version: s.version, media: f.Bare(), as: f.As}
	bare, err := fm.currentOf(obj, hub)
	switch {
	case err != nil && hub == nil:
		return corrupt(s.res, obj, err)
	case err != nil:
		return err
	}
	s.send(code, f, fm.kind(), bare)
	return nil
}

// notList returns the error for a request that wants one object as a list. kube-apiserver detects
// this by the Go type; for generic objects, it detects it only when it looks for items.
func (s *scope) notList() error {
	if s.res.Behavior.GenericObjects {
		return errors.New("content is not a list")
	}
	return notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (%T)",
		s.res.Codec.New())
}

// notAcceptable returns a 406 with the reason NotAcceptable, for which apierrors has no
// constructor.
func notAcceptable(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf(format, args...),
	}}
}

// send responds with one object.
func (s *scope) send(code int, f wire.Format, gvk schema.GroupVersionKind, bare []byte) {
	wire.Object(s.w, s.req, code, f, gvk, bare)
}
