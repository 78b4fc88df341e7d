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

	"kelson.dev/operator/internal/structs"
	"kelson.dev/operator/tree"
)

// A Go type may be older than what it is read from, and then the status of an object that was read lacks something. A write of such a status
// must not lose that (see status.go). The decoders note the objects here when they read them, whichever client, cache or watch they read them for, so this is
// one table per process. Almost always it is empty. An object stays in it: which of its versions a writer has is not known.

// maxPartial bounds the objects that are noted for a type. If there are more, all of the type count as noted.
const maxPartial = 4096

var partials sync.Map // reflect.Type of the struct → *partial

// partial has the objects of which a type lacks a part.
type partial struct {
	mu   sync.Mutex
	uids map[types.UID]structs.Loss
	all  structs.Loss // what counts for every object
	most structs.Loss
}

// notePartial notes that the status of an object, as its type has it, lacks something.
func notePartial(obj metav1.Object, what structs.Loss) {
	if _, kept := obj.(runtime.Object); !kept || what == structs.Whole {
		return
	}
	known, ok := partials.Load(reflect.TypeOf(obj))
	if !ok {
		known, _ = partials.LoadOrStore(reflect.TypeOf(obj), &partial{uids: map[types.UID]structs.Loss{}})
	}
	p := known.(*partial)
	p.mu.Lock()
	defer p.mu.Unlock()
	uid := obj.GetUID()
	p.most = max(p.most, what)
	switch was, there := p.uids[uid]; {
	case was >= what || p.all >= what:
	case uid == "" || !there && len(p.uids) >= maxPartial:
		p.all = p.most
	default:
		p.uids[uid] = what
	}
}

// noteLacking notes that messages of a type, or of the items of a list type, have fields that the type lacks. Where is not known, nor of which objects: equal
// parts of messages are decoded once.
func noteLacking(into runtime.Object) {
	if list, ok := into.(ObjectList); ok {
		if item, err := newItemOf(list); err == nil {
			into = item
		}
	}
	if obj, ok := into.(Object); ok {
		obj = reflect.New(reflect.TypeOf(obj).Elem()).Interface().(Object) // without a uid, it stands for all
		notePartial(obj, structs.InElements)
	}
}

// lossOf is what a status of an object lacks, as its type has it.
func lossOf(obj Object) structs.Loss {
	known, ok := partials.Load(reflect.TypeOf(obj))
	if !ok {
		return structs.Whole
	}
	p := known.(*partial)
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.all, p.uids[obj.GetUID()])
}

// notePartialOf looks at what another decoder made of data: an object or a list.
func notePartialOf(data []byte, into any) {
	if list, ok := into.(ObjectList); ok {
		if _, isObject := into.(Object); !isObject {
			notePartialItems(data, list)
			return
		}
	}
	if obj, ok := into.(Object); ok {
		notePartial(obj, structs.Status(data, obj))
	}
}

func notePartialItems(data []byte, list ObjectList) {
	_, raw, err := cutList(data)
	if err != nil {
		return // then it was not read, either
	}
	n := 0
	_ = meta.EachListItem(list, func(item runtime.Object) error { // never fails
		if obj, ok := item.(Object); ok && n < len(raw) {
			notePartial(obj, structs.Status(raw[n], obj))
		}
		n++
		return nil
	})
}

// losesStatus says what an update and a merge patch of an object's status lose.
func losesStatus(obj Object, p StatusPatch) structs.Loss {
	loss := lossOf(obj)
	if p.Before != nil && reflect.TypeOf(p.Before) == reflect.TypeOf(obj) {
		loss = max(loss, lossOf(p.Before))
	}
	return loss
}

// versionIn is the resourceVersion that a patch demands; empty if it demands none.
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

// Transformed is what change makes of an object that is kept in a cache, to keep less of it. If it changes the status, later writes of that status do not lose
// what is not kept: they read the object first. change may change and return its argument.
func Transformed(obj Object, change func(Object) Object) Object {
	before := encodedStatus(obj)
	obj = change(obj)
	if !bytes.Equal(before, encodedStatus(obj)) {
		notePartial(obj, structs.InElements)
	}
	return obj
}

// encodedStatus is the status of an object in JSON; nil if objects of its type have none.
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
