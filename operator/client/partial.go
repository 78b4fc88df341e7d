package client

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/jsondecode"
	"kelson.dev/internal/tree"
)

// A Go type that is older than the objects that are decoded into it may lack some of their fields.
// A write of such an object's status must not drop these fields (see status.go). The decoders
// record such objects here when they read them, for every client, cache and watch, so the table is
// global to the process. It is almost always empty. Entries are never removed, because it is not
// known which version of an object a writer has.

// maxPartial bounds the recorded objects of a type. Beyond that, all objects of the type count as
// recorded.
const maxPartial = 4096

var partials sync.Map // reflect.Type of the struct → *partial

// partial has the objects of a type that have fields that the type lacks.
type partial struct {
	mu   sync.Mutex
	uids map[types.UID]jsondecode.Loss
	all  jsondecode.Loss // applies to every object
	most jsondecode.Loss
}

// notePartial records that a type lacks part of the status of an object.
func notePartial(obj metav1.Object, what jsondecode.Loss) {
	if _, kept := obj.(runtime.Object); !kept || what == jsondecode.Whole {
		return
	}
	known, ok := partials.Load(reflect.TypeOf(obj))
	if !ok {
		known, _ = partials.LoadOrStore(reflect.TypeOf(obj), &partial{uids: map[types.UID]jsondecode.Loss{}})
	}
	p := known.(*partial)
	p.mu.Lock()
	defer p.mu.Unlock()
	uid := obj.GetUID()
	p.most = max(p.most, what)
	switch was, found := p.uids[uid]; {
	case was >= what || p.all >= what:
	case uid == "" || !found && len(p.uids) >= maxPartial:
		p.all = p.most
	default:
		p.uids[uid] = what
	}
}

// noteLacking records that a type, or the item type of a list, lacks fields of decoded messages.
// The decoder cannot tell which objects are affected, and where, because it decodes equal parts of
// messages only once.
func noteLacking(into runtime.Object) {
	if isList(into) {
		if item, err := newItemOf(into.(ObjectList)); err == nil {
			into = item
		}
	}
	if obj, ok := into.(Object); ok {
		// without a uid, it stands for all objects
		obj = reflect.New(reflect.TypeOf(obj).Elem()).Interface().(Object)
		notePartial(obj, jsondecode.InElements)
	}
}

// lossOf returns the part of an object's status that its type lacks.
func lossOf(obj Object) jsondecode.Loss {
	known, ok := partials.Load(reflect.TypeOf(obj))
	if !ok {
		return jsondecode.Whole
	}
	p := known.(*partial)
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.all, p.uids[obj.GetUID()])
}

// notePartialOf compares data with what another decoder read from it: an object or a list.
func notePartialOf(data []byte, into any) {
	if list, ok := into.(ObjectList); ok && isList(list) {
		notePartialItems(data, list)
		return
	}
	if obj, ok := into.(Object); ok {
		notePartial(obj, jsondecode.Status(data, obj))
	}
}

func notePartialItems(data []byte, list ObjectList) {
	_, raw, err := cutList(data)
	if err != nil {
		return // then decoding failed too
	}
	n := 0
	// returns only errors of the function
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(Object); ok && n < len(raw) {
			notePartial(obj, jsondecode.Status(raw[n], obj))
		}
		n++
		return nil
	})
}

// losesStatus returns the loss that an update or a merge patch of an object's status would cause.
func losesStatus(obj Object, p StatusPatch) jsondecode.Loss {
	loss := lossOf(obj)
	if p.Before != nil && reflect.TypeOf(p.Before) == reflect.TypeOf(obj) {
		loss = max(loss, lossOf(p.Before))
	}
	return loss
}

// versionIn returns the resourceVersion that a patch requires; empty if it requires none.
func versionIn(document []byte) string {
	p := tree.Parser{Data: document}
	raw, err := p.Find("metadata")
	if err != nil {
		return ""
	}
	p = tree.Parser{Data: raw}
	if raw, err = p.Find("resourceVersion"); err != nil {
		return ""
	}
	p = tree.Parser{Data: raw}
	version, _ := p.Text()
	return version
}

// Transformed returns change(obj), for a cache that keeps less of an object. If change modifies the
// status, later writes of that status read the object first, so that they don't lose what the cache
// dropped. change may modify and return its argument.
func Transformed(obj Object, change func(Object) Object) Object {
	before := encodedStatus(obj)
	obj = change(obj)
	if !bytes.Equal(before, encodedStatus(obj)) {
		notePartial(obj, jsondecode.InElements)
	}
	return obj
}

// encodedStatus returns the status of an object in JSON; nil if it has none.
func encodedStatus(obj Object) []byte {
	var status any
	if u, ok := obj.(*unstructured.Unstructured); ok {
		status = u.Object[statusName]
	} else if v := reflect.ValueOf(obj).Elem(); v.Kind() == reflect.Struct && v.FieldByName("Status").IsValid() {
		status = v.FieldByName("Status").Interface()
	}
	if status == nil {
		return nil
	}
	data, err := json.Marshal(status)
	if err != nil {
		return nil
	}
	return data
}
