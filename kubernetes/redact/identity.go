package redact

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// maxElements is how many elements of a list are logged.
const maxElements = 10

// identity returns the part of a value that may be logged: numbers and booleans unchanged, strings
// without the contents of objects, the names of objects, and otherwise the type.
func identity(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case error:
		return failure(v)
	case klog.ObjectRef, types.NamespacedName, net.Addr, net.IP, netip.Addr, netip.AddrPort,
		schema.GroupVersionKind, schema.GroupVersionResource, schema.GroupKind, schema.GroupResource,
		schema.GroupVersion:
		return text(fmt.Sprint(v))
	case metav1.Object:
		return object(v)
	case []any:
		return list(v)
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Bool:
		return r.Bool()
	case reflect.String: // UIDs, phases, reasons
		return text(r.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return r.Uint()
	case reflect.Float32, reflect.Float64:
		return r.Float()
	case reflect.Slice, reflect.Map:
		return fmt.Sprintf("(%T of %d)", v, r.Len())
	}
	return fmt.Sprintf("(%T)", v)
}

// failure returns the part of an error that may be logged. Errors joined by errors.Join, one per
// line, become a list.
func failure(err error) string {
	whole := safely(err.Error)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !strings.Contains(whole, "\n") {
		return text(whole)
	}
	var all []any
	var lines []string
	for _, err := range joined.Unwrap() {
		all, lines = append(all, err), append(lines, safely(err.Error))
	}
	if strings.Join(lines, "\n") != whole {
		return text(whole)
	}
	return list(all)
}

// object returns an object's type, namespace and name.
func object(o metav1.Object) string {
	return safely(func() string {
		name := o.GetName()
		if o.GetNamespace() != "" {
			name = o.GetNamespace() + "/" + name
		}
		return text(fmt.Sprintf("(%T %s)", o, name))
	})
}

// list returns the identities of a list's elements.
func list(all []any) string {
	var names []string
	for _, v := range all[:min(len(all), maxElements)] {
		names = append(names, fmt.Sprint(identity(v)))
	}
	if len(all) > maxElements {
		names = append(names, fmt.Sprintf("… (%d more)", len(all)-maxElements))
	}
	return text("[" + strings.Join(names, " ") + "]")
}

// safely calls a method of a value that may be a nil pointer.
func safely(f func() string) (s string) {
	defer func() {
		if recover() != nil {
			s = "<nil>"
		}
	}()
	return f()
}

// maxText limits messages and strings, in bytes.
const maxText = 1 << 10

// contents are substrings of printed objects, in whole or in part: as JSON, YAML, %v and %#v. A
// text is cut before the first of them.
var contents = []string{
	"\n", "ObjectMeta", "TypeMeta", `"metadata"`, "metadata:", `"spec"`, `"data"`, `"status"`, `\"metadata\"`,
	`\"spec\"`, `\"data\"`, `\"status\"`,
	"Spec{", "Status{", "map[", "[{", "{[", "[] []",
}

// quotes precede a value in validation errors. A text is cut after the first of them.
var quotes = []string{"Invalid value: ", "Unsupported value: ", "Duplicate value: "}

// text cuts a text before the contents of an object.
func text(s string) string {
	end := len(s)
	for _, mark := range contents {
		if at := strings.Index(s[:end], mark); at >= 0 {
			end = at
		}
	}
	for _, mark := range quotes {
		if at := strings.Index(s[:end], mark); at >= 0 {
			end = at + len(mark)
		}
	}
	if end = min(end, maxText); end == len(s) {
		return s
	}
	return strings.ToValidUTF8(s[:end], "") + fmt.Sprintf("… (%d bytes not logged)", len(s)-end)
}
