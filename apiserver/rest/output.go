package rest

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// output writes the response to a request, in the form that the request asks for.
type output struct {
	w  http.ResponseWriter
	on *target
	in *input
}

// respond sends one stored object in the negotiated format.
func (out *output) respond(code int, f wire.Format, obj *store.Object) error {
	return out.respondOf(code, f, obj, nil)
}

// respondOf is like respond, for an object that was just encoded from hub. It consumes hub, which
// may be nil.
func (out *output) respondOf(code int, f wire.Format, obj *store.Object, hub runtime.Object) error {
	switch f.As.Kind {
	case "Table":
		return out.respondTable(code, f, metav1.ListMeta{ResourceVersion: revisionString(obj.Revision)},
			[]*store.Object{obj})
	case "PartialObjectMetadataList":
		return out.on.notList()
	}
	fm := form{res: out.on.res, version: out.on.version, media: f.Bare(), as: f.As}
	bare, err := fm.currentOf(obj, hub)
	switch {
	case err != nil && hub == nil:
		return corrupt(out.on.res, obj, err)
	case err != nil:
		return err
	}
	out.send(code, f, fm.kind(), bare)
	return nil
}

// notList returns the error for a request that wants one object as a list. kube-apiserver detects
// this by the Go type; for generic objects, it detects it only when it looks for items.
func (t *target) notList() error {
	if t.res.Behavior.GenericObjects {
		return errors.New("content is not a list")
	}
	return notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (%T)",
		t.res.Codec.New())
}

// send responds with one object.
func (out *output) send(code int, f wire.Format, gvk schema.GroupVersionKind, bare []byte) {
	wire.Object(out.w, out.in.req, code, f, gvk, bare)
}
