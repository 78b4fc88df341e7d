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

// The client sends objects of Kubernetes' own types as protobuf once the server has responded with
// protobuf. A small object then costs kube-apiserver a seventh less than as JSON; larger objects
// save more. JSON has one advantage: a server older than the types reports unknown fields in JSON,
// and ignores them in protobuf. So the client compares its request with the response. Requests with
// field validation are sent as JSON.

// sendsMessages reports whether an object can be sent as protobuf.
func (c *restClient) sendsMessages(obj runtime.Object, o WriteOptions) bool {
	if o.FieldValidation != "" || !c.messages.Load() || c.noMessages.Load() {
		return false
	}
	_, builtin := builtinKind(obj)
	return builtin && hasProtobuf(obj) && !hasNested(reflect.TypeOf(obj).Elem())
}

var nested sync.Map // reflect.Type → bool

// hasNested reports whether a type contains, at any depth, a field for objects of any type
// (runtime.RawExtension). Go values in such a field are encoded in JSON but not in protobuf.
func hasNested(t reflect.Type) bool {
	if known, ok := nested.Load(t); ok {
		return known.(bool)
	}
	has := refersTo(t, reflect.TypeFor[runtime.RawExtension](), map[reflect.Type]bool{})
	nested.Store(t, has)
	return has
}

// refersTo reports whether values of type t can contain values of type what. seen has the types
// that were already checked.
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

// exchangeMessage sends obj as protobuf and fills it with the response. It returns the path of a
// field that obj had and the response does not have; empty if there is none, or if the server
// rejects protobuf and got the JSON in r instead.
func (c *restClient) exchangeMessage(ctx context.Context, r request, obj Object, e endpoint,
	given bool) (dropped string, err error) {
	asJSON := r
	if r.body, err = (protobufCodec{}).encode(obj, e.kind); err != nil {
		return "", err
	}
	r.contentType = protobufType
	// decoding the response replaces the struct, but nothing that it refers to
	sent := reflect.New(reflect.TypeOf(obj).Elem()).Elem()
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

// detectProtobuf records that the server sends protobuf.
func (c *restClient) detectProtobuf(resp *http.Response) {
	if !c.messages.Load() && isProtobuf(resp) {
		c.messages.Store(true)
	}
}

// droppedIn returns the path of a field that is set in sent but not in got, as is the case if a
// server does not know the field. At the top level, it skips metadata and status, which the server
// controls.
func droppedIn(sent, got reflect.Value, top bool) string {
	for i := range sent.NumField() {
		was, is := sent.Field(i), got.Field(i)
		if was.IsZero() {
			continue
		}
		if top {
			switch sent.Type().Field(i).Name {
			// a Secret's StringData becomes its Data
			case "TypeMeta", "ObjectMeta", "Status", "StringData":
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

// droppedValue reports whether got lacks a part of was, which is not zero, and returns the path of
// that part.
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
			return "", false // a third party changed the list
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

// isOfKubernetes reports whether a type is a struct of Kubernetes' API, which can get more fields
// with each version.
func isOfKubernetes(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.Contains("/"+t.PkgPath(), "/"+builtinPath)
}
