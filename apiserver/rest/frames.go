package rest

import (
	"encoding/json"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// frames builds the frames of a watch in one format. The frame of an event is built once and shared
// by all watches in that format.
type frames struct {
	form  form
	table *tableForm // nil: frames have objects, not tables
	keys  [3]frameKey
}

func (out *output) frames(f wire.Format) (*frames, error) {
	fr := &frames{form: form{res: out.on.res, version: out.on.version, media: f.Bare(), as: f.As}}
	if f.As.Kind == "Table" {
		fr.form.as.Kind = ""
		table, err := out.tableForm(f)
		if err != nil {
			return nil, err
		}
		fr.table = table
	}
	for i, typ := range [...]watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		fr.keys[i] = unique.Make(formOf{fr.form, typ})
	}
	return fr, nil
}

// frameKey is the memo key of a frame. It is one word, because each watch looks up each event.
type frameKey = unique.Handle[formOf]

type formOf struct {
	form form
	typ  watch.EventType
}

func (fr *frames) key(typ watch.EventType) frameKey {
	switch typ {
	case watch.Added:
		return fr.keys[0]
	case watch.Modified:
		return fr.keys[1]
	}
	return fr.keys[2]
}

// object returns the frame of a stored object.
func (fr *frames) object(typ watch.EventType, obj *store.Object) ([]byte, error) {
	if fr.table != nil {
		return fr.table.frame(typ, obj)
	}
	bare, err := fr.form.bare(obj)
	if err != nil {
		return nil, err
	}
	return wire.Event(fr.form.media, typ, fr.form.kind(), bare)
}

// parts returns the frame of a stored object without copying the object's shared encoding. It does
// not support tables.
func (fr *frames) parts(typ watch.EventType, obj *store.Object) (before, bare, after []byte, err error) {
	if bare, err = fr.form.bare(obj); err != nil {
		return nil, nil, nil, err
	}
	before, after, err = wire.EventAround(fr.form.media, typ, fr.form.kind(), len(bare))
	return before, bare, after, err
}

// event returns the frame of an event, with type typ. If an update removes the object from the
// watch's selection, the frame has the last selected state with the event's revision.
func (fr *frames) event(typ watch.EventType, e *store.Event) ([]byte, error) {
	if fr.table != nil {
		obj, err := fr.shown(typ, e)
		if err != nil {
			return nil, err
		}
		return fr.table.frame(typ, obj)
	}
	frame, err := e.Memo(fr.key(typ), func() (any, error) {
		obj, err := fr.shown(typ, e)
		if err != nil {
			return nil, err
		}
		return fr.object(typ, obj)
	})
	if err != nil {
		return nil, err
	}
	return frame.([]byte), nil
}

// shown returns the object that the frame of an event has. The last state of an object that was
// stored under an older schema is pruned and defaulted, as in every other response.
func (fr *frames) shown(typ watch.EventType, e *store.Event) (*store.Object, error) {
	if typ != watch.Deleted {
		return e.Object, nil
	}
	res := fr.form.res
	if codec, ok := res.Codec.(resource.Verbatim); ok && e.Prev != nil && !codec.Verbatim(e.Prev) {
		v, err := e.Memo(repaired{res}, func() (any, error) {
			data, err := encodeAgain(res, e.Prev)
			return lastState(e, data), err
		})
		if err != nil {
			return nil, err
		}
		return v.(*store.Object), nil
	}
	if e.Type == store.Deleted {
		return e.Object, nil
	}
	v, err := e.Memo(leaving{}, func() (any, error) { return lastState(e, e.Prev.Data), nil })
	return v.(*store.Object), err
}

// lastState returns the state before an event, with the revision of the event and with data.
func lastState(e *store.Event, data []byte) *store.Object {
	return &store.Object{
		Key: e.Prev.Key, Revision: e.Revision(), Created: e.Prev.Created, Head: e.Prev.Head,
		Data: setRevision(data, revisionString(e.Revision())),
	}
}

// leaving is the memo key of an object that an update removes from a selection, and repaired of one
// that is also pruned and defaulted.
type (
	leaving  struct{}
	repaired struct{ res *resource.Resource }
)

// bookmark returns a frame with the revision up to which all events were sent.
func (fr *frames) bookmark(revision uint64, initialEnd bool) ([]byte, error) {
	res := fr.form.res
	metadata := map[string]any{"resourceVersion": revisionString(revision)}
	if initialEnd {
		metadata["annotations"] = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	kind := res.GVK(res.StorageVersion)
	data, err := json.Marshal(map[string]any{"kind": kind.Kind, "apiVersion": kind.GroupVersion().String(),
		"metadata": metadata})
	if err != nil {
		return nil, err
	}
	if fr.table == nil && fr.form.as.Empty() && !res.Behavior.MetadataBookmarks {
		return fr.emptyBookmark(revision, initialEnd)
	}
	if direct := fr.form; fr.table == nil && direct.media == "application/json" && direct.as.Empty() {
		kind := direct.kind()
		data, err = json.Marshal(map[string]any{"kind": kind.Kind, "apiVersion": kind.GroupVersion().String(),
			"metadata": metadata})
		if err != nil {
			return nil, err
		}
		return wire.Event(direct.media, watch.Bookmark, kind, data)
	}
	return fr.object(watch.Bookmark, &store.Object{Revision: revision, Data: data})
}

// emptyBookmark returns a bookmark of a built-in kind. Its type may have fields that are always
// encoded.
func (fr *frames) emptyBookmark(revision uint64, initialEnd bool) ([]byte, error) {
	hub := fr.form.res.Codec.New()
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	object.SetResourceVersion(revisionString(revision))
	if initialEnd {
		object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	versioned, err := fr.form.res.Codec.ToVersion(hub, fr.form.version)
	if err != nil {
		return nil, err
	}
	bare, err := wire.Encode(fr.form.media, versioned)
	if err != nil {
		return nil, err
	}
	return wire.Event(fr.form.media, watch.Bookmark, fr.form.kind(), bare)
}

func (fr *frames) status(status *metav1.Status) ([]byte, error) {
	bare, err := wire.Encode(fr.form.media, status)
	if err != nil {
		return nil, err
	}
	return wire.Event(fr.form.media, watch.Error, wire.StatusKind(), bare)
}
