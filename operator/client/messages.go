package client

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Objects of Kubernetes' own types are sent as protobuf once the server has answered with it: that costs kube-apiserver a seventh less for a small
// object, and more for others. JSON has one advantage: a server that is older than the types tells what it does not know, where it passes over the same
// in protobuf. So what is sent is compared with the answer. Who asks for a validation of fields gets JSON.

// sendsMessages says that an object can be sent as protobuf.
func (c *restClient) sendsMessages(obj runtime.Object, o WriteOptions) bool {
	if o.FieldValidation != "" || !c.messages.Load() || c.noMessages.Load() {
		return false
	}
	_, builtin := builtinKind(obj)
	return builtin && hasProtobuf(obj) && !hasNested(reflect.TypeOf(obj).Elem())
}

var nested sync.Map // reflect.Type → bool

// hasNested says that a type has, at any depth, places for objects of any type. Go values there are written as JSON, and left out of protobuf.
func hasNested(t reflect.Type) bool {
	if known, ok := nested.Load(t); ok {
		return known.(bool)
	}
	has := refersTo(t, reflect.TypeFor[runtime.RawExtension](), map[reflect.Type]bool{})
	nested.Store(t, has)
	return has
}

// refersTo says that values of type t can have values of type what. seen are the types that need not be looked at.
func refersTo(t, what reflect.Type, seen map[reflect.Type]bool) bool {
	if t == what {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return refersTo(t.Elem(), what, seen)
	case reflect.Map:
		return refersTo(t.Key(), what, seen) || refersTo(t.Elem(), what, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if refersTo(t.Field(i).Type, what, seen) {
				return true
			}
		}
	}
	return false
}

// exchangeMessage sends obj as protobuf, and fills it with the answer. It returns the path of a field that obj had and the answer has not; empty if there
// is none, or the server takes no protobuf and was sent what r has.
func (c *restClient) exchangeMessage(ctx context.Context, r request, obj Object, e endpoint, given bool) (dropped string, err error) {
	asJSON := r
	if r.body, err = (protobufCodec{}).encode(obj, e.kind); err != nil {
		return "", err
	}
	r.contentType = protobufType
	sent := reflect.New(reflect.TypeOf(obj).Elem()).Elem() // the answer takes the place of the struct, and of nothing that it refers to
	sent.Set(reflect.ValueOf(obj).Elem())
	err = c.exchangeIfKind(ctx, r, obj, e.kind, false, given)
	if apierrors.IsUnsupportedMediaType(err) {
		c.noMessages.Store(true)
		return "", c.exchangeIfKind(ctx, asJSON, obj, e.kind, false, given)
	}
	if err != nil {
		return "", err
	}
	return droppedIn(sent, reflect.ValueOf(obj).Elem(), true), nil
}

// note learns from an answer.
func (c *restClient) note(resp *http.Response) {
	if !c.messages.Load() && isProtobuf(resp) {
		c.messages.Store(true)
	}
}

// droppedIn is the path of a field that has a value in sent and none in got, as servers leave it that do not know it. On top, metadata and status
// are the server's own business.
func droppedIn(sent, got reflect.Value, top bool) string {
	for i := range sent.NumField() {
		was, is := sent.Field(i), got.Field(i)
		if was.IsZero() {
			continue
		}
		if top {
			switch sent.Type().Field(i).Name {
			case "TypeMeta", "ObjectMeta", "Status", "StringData": // which a Secret has as its data, afterwards
				continue
			}
		}
		if path, isDropped := droppedValue(was, is); isDropped {
			field := sent.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case name == "":
				return path
			case path == "" || path[0] == '[':
				return name + path
			}
			return name + "." + path
		}
	}
	return ""
}

// droppedValue says whether got has less than was, which is not zero, and where below it.
func droppedValue(was, got reflect.Value) (path string, isDropped bool) {
	switch was.Kind() {
	case reflect.Pointer:
		if got.IsNil() {
			return "", true
		}
		if isOfKubernetes(was.Type().Elem()) {
			path = droppedIn(was.Elem(), got.Elem(), false)
		}
	case reflect.Struct:
		if !isOfKubernetes(was.Type()) {
			return "", got.IsZero()
		}
		path = droppedIn(was, got, false)
	case reflect.Slice:
		if got.Len() == 0 {
			return "", was.Len() > 0
		}
		if was.Len() != got.Len() || !isOfKubernetes(was.Type().Elem()) {
			return "", false // somebody has more to say about it
		}
		for i := range was.Len() {
			if below := droppedIn(was.Index(i), got.Index(i), false); below != "" {
				return fmt.Sprintf("[%d].%s", i, below), true
			}
		}
	case reflect.Map:
		return "", got.Len() == 0 && was.Len() > 0
	default:
		return "", got.IsZero()
	}
	return path, path != ""
}

// isOfKubernetes says that a type is a struct whose fields may be more with each version of Kubernetes.
func isOfKubernetes(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.Contains("/"+t.PkgPath(), "/"+builtinPath)
}
