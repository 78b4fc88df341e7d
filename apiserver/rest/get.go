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
	"k8s.io/apiserver/pkg/storage"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

func (s *scope) get() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	obj, err := s.fetch()
	if err != nil {
		return err
	}
	return s.out.respond(http.StatusOK, f, obj)
}

// fetch reads the object of the request according to its GetOptions.
func (s *scope) fetch() (*store.Object, error) {
	var opts metav1.GetOptions
	if err := s.in.query(&opts); err != nil {
		return nil, err
	}
	snap, err := s.newest(opts.ResourceVersion)
	if err != nil {
		if _, parse := (storage.APIObjectVersioner{}).ParseResourceVersion(opts.ResourceVersion); parse != nil &&
			s.on.res.Behavior.NotCached {
			err = apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
		}
		return nil, err
	}
	obj := snap.Get(s.on.res.Key(s.on.namespace, s.on.name))
	if obj == nil {
		return nil, apierrors.NewNotFound(s.on.res.GroupResource(), s.on.name)
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
		return s.h.store.Snapshot(), nil
	case resourceVersion != "":
		revision, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
		if err != nil {
			return nil, err // only of GET, and not a Status; lists have validated it before
		}
		return s.reached(revision)
	case s.h.store.Follows():
		return s.h.fresh(s.in.ctx)
	}
	return s.h.store.Snapshot(), nil
}

// reached returns a snapshot of at least a revision. If no write has it yet, reached waits up to
// revisionWait, except for kinds that kube-apiserver does not read from its watch cache.
func (s *scope) reached(revision uint64) (*store.Snapshot, error) {
	snap := s.h.store.Snapshot()
	if revision <= snap.Revision() {
		return snap, nil
	}
	snap, err := s.h.fresh(s.in.ctx)
	if err != nil {
		return nil, err
	}
	if s.on.res.Behavior.NotCached {
		if revision > snap.Revision() {
			return nil, storage.NewTooLargeResourceVersionError(revision, snap.Revision(), 0)
		}
		return snap, nil
	}
	ctx, cancel := context.WithTimeout(s.in.ctx, revisionWait)
	defer cancel()
	for revision > snap.Revision() {
		waited := s.h.store.Await(ctx, snap.Revision(), "")
		// a Store over a log that other servers share reaches some revisions without an event
		if snap, err = s.h.fresh(s.in.ctx); err != nil {
			return nil, err
		}
		switch {
		case waited == nil || revision <= snap.Revision():
		case ctx.Err() != nil && s.in.ctx.Err() == nil:
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

func decodeQuery(values url.Values, into runtime.Object) error {
	if err := metainternal.ParameterCodec.DecodeParameters(values, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// notAcceptable returns a 406 with the reason NotAcceptable, for which apierrors has no
// constructor.
func notAcceptable(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf(format, args...),
	}}
}
