package rest

import (
	"encoding/json"
	"errors"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// form is an encoding of the objects of a kind.
type form struct {
	res     *resource.Resource
	version string
	media   string                  // bare: JSON, protobuf or CBOR
	as      schema.GroupVersionKind // PartialObjectMetadata, for a watch also its list, or zero
	untyped bool                    // without kind and apiVersion, for the items of a list in CBOR
}

// formKey is the memo key of an object in a form. A changed kind has another Resource and so
// another key. Keys do not keep Resources alive: objects that forks share outlive the forks.
type formKey struct {
	res            weak.Pointer[resource.Resource]
	version, media string
	as             schema.GroupVersionKind
	untyped        bool
}

func (f form) key() formKey {
	return formKey{weak.Make(f.res), f.version, f.media, f.as, f.untyped}
}

// kind returns the kind of objects in the form.
func (f form) kind() schema.GroupVersionKind {
	if !f.as.Empty() {
		return f.as
	}
	return f.res.GVK(f.version)
}

// bare returns the encoding of an object in a form. It is computed once per revision. For lists and
// watches, this includes the result of a conversion webhook, as in kube-apiserver, whose watch
// cache keeps it.
func (f form) bare(obj *store.Object) ([]byte, error) {
	return f.encoded(obj, nil, (*store.Object).Memo)
}

// current is like bare, for reads and changes of one object. It calls a conversion webhook again: a
// client that writes an object back must not lose what the webhook dropped before it was repaired.
// Later lists share the result.
func (f form) current(obj *store.Object) ([]byte, error) { return f.currentOf(obj, nil) }

// currentOf is like current, for an object that was just encoded from hub. It consumes hub, which
// may be nil.
func (f form) currentOf(obj *store.Object, hub runtime.Object) ([]byte, error) {
	if codec, ok := f.res.Codec.(resource.Waiting); ok && codec.Waits() {
		return f.encoded(obj, hub, (*store.Object).Renew)
	}
	return f.encoded(obj, hub, (*store.Object).Memo)
}

// encoded returns the encoding of an object, which keep keeps.
func (f form) encoded(obj *store.Object, hub runtime.Object,
	keep func(*store.Object, any, func() (any, error)) (any, error)) ([]byte, error) {
	if f.media == resource.MediaJSON && f.as.Empty() && f.version == f.res.StorageVersion &&
		verbatim(f.res, obj, hub != nil) {
		return obj.Data, nil
	}
	if f.storedMetadata(obj) {
		// Not memoized: a copy costs less than a memo, which would evict those that watches share.
		return wire.OnlyMetadata(f.as, obj.Metadata()), nil
	}
	v, err := keep(obj, f.key(), func() (any, error) {
		if !f.as.Empty() {
			return f.partial(obj)
		}
		if codec, ok := f.res.Codec.(resource.Fresh); ok && hub != nil && f.media == resource.MediaProtobuf {
			if versioned, ok := codec.Written(hub, obj.Data, f.version); ok {
				return wire.Encode(f.media, versioned)
			}
		}
		versioned, err := f.decode(obj)
		if err != nil {
			return nil, err
		}
		if f.untyped {
			versioned.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		return wire.Encode(f.media, versioned)
	})
	if err != nil {
		return nil, err
	}
	return v.([]byte), nil
}

// decode returns the object in the requested version.
func (f form) decode(obj *store.Object) (runtime.Object, error) {
	if codec, ok := f.res.Codec.(resource.Direct); ok && f.version == f.res.StorageVersion &&
		verbatim(f.res, obj, false) {
		if versioned, ok := codec.Stored(obj.Data); ok {
			return versioned, nil
		}
	}
	hub, err := f.res.Codec.Load(obj.Data)
	if err != nil {
		return nil, err
	}
	return f.res.Codec.ToVersion(hub, f.version)
}

// errNotList is the error of an object in the form of a list.
var errNotList = errors.New("an object is not a list")

// partial encodes only the metadata.
func (f form) partial(obj *store.Object) ([]byte, error) {
	if f.as.Kind == "PartialObjectMetadataList" {
		return nil, errNotList
	}
	p, err := f.metadata(obj)
	if err != nil {
		return nil, err
	}
	if hidden := f.hidden(); hidden != "" {
		if delete(p.Annotations, hidden); len(p.Annotations) == 0 {
			p.Annotations = nil
		}
	}
	p.SetGroupVersionKind(f.as)
	return wire.Encode(f.media, &p)
}

// storedMetadata reports whether the form is the metadata as it is stored, in JSON.
func (f form) storedMetadata(obj *store.Object) bool {
	return f.media == resource.MediaJSON && f.as.Kind == "PartialObjectMetadata" &&
		f.hidden() == "" && !f.convertsMetadata() && unchanged(f.res, obj)
}

// hidden returns the annotation that only the stored metadata has.
func (f form) hidden() string {
	if codec, ok := f.res.Codec.(resource.Showing); ok {
		return codec.HiddenAnnotation()
	}
	return ""
}

// convertsMetadata reports whether the conversion to the requested version may change metadata,
// which only webhooks do.
func (f form) convertsMetadata() bool {
	codec, ok := f.res.Codec.(resource.Waiting)
	return ok && codec.Waits() && f.version != f.res.StorageVersion
}

// metadata returns the metadata of a stored object in the requested version.
func (f form) metadata(obj *store.Object) (p metav1.PartialObjectMetadata, err error) {
	if !f.convertsMetadata() {
		err = json.Unmarshal(obj.Data, &p)
		return p, err
	}
	versioned, err := f.decode(obj)
	if err != nil {
		return p, err
	}
	object, err := meta.Accessor(versioned)
	if err != nil {
		return p, err
	}
	return *meta.AsPartialObjectMetadata(object), nil
}

// verbatim reports whether responses can copy the stored bytes. written is true if the object was
// just encoded.
func verbatim(res *resource.Resource, obj *store.Object, written bool) bool {
	if res.StoredAs != "" { // they have another apiVersion
		return false
	}
	return written || unchanged(res, obj)
}

// unchanged reports whether the codec would store the object as it is stored.
func unchanged(res *resource.Resource, obj *store.Object) bool {
	if obj.Unreadable() != nil {
		return false
	}
	v, ok := res.Codec.(resource.Verbatim)
	return !ok || v.Verbatim(obj)
}
