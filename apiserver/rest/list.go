package rest

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// list serves LIST, and WATCH if the options ask for it.
func (s *scope) list() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	opts, sel, err := s.in.listOptions()
	if err != nil {
		return err
	}
	if opts.Watch {
		return s.watch(opts, sel)
	}
	page, err := s.page(opts, sel)
	if err != nil {
		return err
	}
	return s.out.respondPage(f, page)
}

func (out *output) respondPage(f wire.Format, page *page) error {
	kind := out.on.res.GVK(out.on.version)
	kind.Kind = out.on.res.ListKind
	var untyped schema.GroupVersionKind
	if f.As.Empty() && !out.on.res.Behavior.TypedItems {
		untyped = out.on.res.GVK(out.on.version)
	}
	fm := form{res: out.on.res, version: out.on.version, media: f.Bare(), as: f.As,
		untyped: !untyped.Empty() && f.Bare() == resource.MediaCBOR}
	switch f.As.Kind {
	case "Table":
		return out.respondTable(http.StatusOK, f, page.meta, page.objects)
	case "PartialObjectMetadata":
		return notAcceptable("you requested PartialObjectMetadata, but the requested object is a list (%TList)",
			out.on.res.Codec.New())
	case "PartialObjectMetadataList":
		kind = f.As
		fm.as.Kind = "PartialObjectMetadata"
		if stored, ok := fm.storedMetadataOf(page.objects); ok {
			wire.MetadataList(out.w, out.in.req, f, kind, page.meta, stored)
			return nil
		}
	}
	items := make([][]byte, len(page.objects))
	unread := unreadable{res: out.on.res}
	for i, obj := range page.objects {
		var err error
		if items[i], err = fm.bare(obj); err != nil {
			if err := unread.add(obj, err); err != nil {
				return err
			}
		}
	}
	if err := unread.err(); err != nil {
		return err
	}
	wire.List(out.w, out.in.req, http.StatusOK, f, kind, page.meta, items, untyped)
	return nil
}

// storedMetadataOf returns the stored metadata of objects; ok is false if the form of one differs.
func (f form) storedMetadataOf(objects []*store.Object) (metadata [][]byte, ok bool) {
	if f.media != resource.MediaJSON {
		return nil, false
	}
	metadata = make([][]byte, len(objects))
	for i, obj := range objects {
		if !f.storedMetadata(obj) {
			return nil, false
		}
		metadata[i] = obj.Metadata()
	}
	return metadata, true
}

// page is a list or a part of one.
type page struct {
	meta    metav1.ListMeta
	objects []*store.Object
}

// page reads the objects of a LIST by the rules of kube-apiserver's storage layer. For cached kinds
// it follows the watch cache, which ignores the limit at resourceVersion 0.
func (s *scope) page(opts *metainternalversion.ListOptions, sel *selector) (*page, error) {
	prefix := "/" + s.on.res.Prefix() + "/"
	if s.on.namespace != "" {
		prefix += s.on.namespace + "/"
	}
	namespace := s.on.namespace
	if namespace == "" {
		namespace = sel.namespace
	}
	single := sel.name != "" && (namespace != "" || !s.on.res.Namespaced)
	revision, after, err := storage.ValidateListOptions(prefix, storage.APIObjectVersioner{}, storage.ListOptions{
		ResourceVersion:      opts.ResourceVersion,
		ResourceVersionMatch: opts.ResourceVersionMatch,
		Predicate:            storage.SelectionPredicate{Limit: opts.Limit, Continue: opts.Continue},
		Recursive:            !single,
	})
	if err != nil {
		return nil, err
	}
	snap, err := s.snapshot(opts, revision, after, prefix)
	if err != nil {
		return nil, err
	}
	limit := opts.Limit
	if opts.ResourceVersion == "0" && !s.on.res.Behavior.NotCached {
		limit = 0
	}
	p := &page{meta: metav1.ListMeta{ResourceVersion: revisionString(snap.Revision())}}
	if single {
		if obj := snap.Get(s.on.res.Key(namespace, sel.name)); obj != nil {
			if ok, err := sel.matches(obj); err != nil {
				return nil, err
			} else if ok {
				p.objects = append(p.objects, obj)
			}
		}
		return p, nil
	}

	var last *store.Object
	more, seen := false, 0
	for obj := range snap.Scan(s.on.res.Prefix(), namespace, s.on.afterKey(after)) {
		if limit > 0 && int64(len(p.objects)) == limit {
			more = true
			break
		}
		if seen++; seen%256 == 0 && s.in.ctx.Err() != nil { // selectors can be slow
			return nil, s.in.ctx.Err()
		}
		ok, err := sel.matches(obj)
		if err != nil {
			return nil, err
		}
		if ok {
			p.objects = append(p.objects, obj)
		}
		last = obj
	}
	if more {
		s.h.store.Pin(snap)
		p.meta.Continue, err = storage.EncodeContinue(s.on.tokenKey(last.Key), prefix, int64(snap.Revision()))
		if err != nil {
			return nil, err
		}
		if sel.empty() {
			remaining := int64(snap.CountAfter(s.on.res.Prefix(), namespace, last.Key))
			p.meta.RemainingItemCount = &remaining
		}
	}
	return p, nil
}

// snapshot returns the state that a LIST must show: exactly at a revision, or the newest one if it
// is new enough.
func (s *scope) snapshot(opts *metainternalversion.ListOptions, revision int64,
	after, prefix string) (*store.Snapshot, error) {
	if revision <= 0 {
		if opts.Continue != "" && after != "" {
			return s.newest("") // the rest of an expired list continues in the current state
		}
		return s.newest(opts.ResourceVersion)
	}
	if _, err := s.reached(uint64(revision)); err != nil {
		return nil, err
	}
	at := s.h.store.At
	if opts.Continue != "" {
		at = s.h.store.Pinned
	}
	snap, err := at(uint64(revision))
	switch {
	case errors.Is(err, store.ErrCompacted) && opts.Continue != "":
		return nil, expiredContinue(after, prefix)
	case errors.Is(err, store.ErrCompacted):
		return nil, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return snap, err
}

// expiredContinue returns the 410 for a page whose snapshot has expired. Its token continues after
// the same key in the state at the time of the next request.
func expiredContinue(after, prefix string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	token, encoding := storage.EncodeContinue(after, prefix, -1)
	if encoding != nil {
		return encoding
	}
	err.ErrStatus.ListMeta.Continue = token
	return err
}

// tokenKey returns a key in the form of kube-apiserver's continue tokens: a path and a zero byte,
// which means "after this key".
func (t *target) tokenKey(key store.Key) string {
	path := "/" + key.Resource + "/"
	if t.res.Namespaced {
		path += key.Namespace + "/"
	}
	return path + key.Name + "\x00"
}

// afterKey converts the path of a token back to the key after which the list continues.
func (t *target) afterKey(path string) store.Key {
	if path == "" {
		return store.Key{}
	}
	path = strings.TrimPrefix(path, "/"+t.res.Prefix()+"/")
	namespace, name := "", path
	if t.res.Namespaced {
		namespace, name, _ = strings.Cut(path, "/")
	}
	return t.res.Key(namespace, strings.TrimSuffix(name, "\x00"))
}

func revisionString(revision uint64) string { return strconv.FormatUint(revision, 10) }
