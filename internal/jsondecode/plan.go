package jsondecode

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/typecache"
)

// A plan describes how to decode a type.
type plan struct {
	read readFunc
}

type readFunc = func(r *reader, v reflect.Value, depth int) error

var made typecache.Cache[plan]

func planOf(t reflect.Type) *plan { return made.Of(t, makePlan) }

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	timeType        = reflect.TypeFor[metav1.Time]()
	fieldsType      = reflect.TypeFor[*metav1.FieldsV1]()
	anyType         = reflect.TypeFor[any]()
	textMapType     = reflect.TypeFor[map[string]string]()
	textsType       = reflect.TypeFor[[]string]()
	numberType      = reflect.TypeFor[json.Number]()
)

func makePlan(t reflect.Type, making map[reflect.Type]*plan) *plan {
	if p := made.Known(t); p != nil {
		return p
	}
	if p := making[t]; p != nil {
		return p
	}
	p := &plan{}
	making[t] = p
	switch pointer := reflect.PointerTo(t); {
	case t == timeType:
		p.read = (*reader).time
	case t == fieldsType:
		p.read = (*reader).fields
	case t == textMapType:
		p.read = (*reader).textMap
	case t == textsType:
		p.read = (*reader).texts
	case t == anyType:
		p.read = (*reader).any
	case t == numberType: // json.Number: a string with a number
		p.read = (*reader).other
	case pointer.Implements(jsonUnmarshaler) && t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface:
		p.read = comparing((*reader).itself)
	case pointer.Implements(textUnmarshaler):
		p.read = comparing((*reader).other)
	default:
		makePlanOfKind(p, t, making)
	}
	if writesItself(t) && t != timeType {
		p.read = comparing(p.read)
	}
	return p
}

func makePlanOfKind(p *plan, t reflect.Type, making map[reflect.Type]*plan) {
	p.read = comparing((*reader).other)
	switch t.Kind() {
	case reflect.String:
		p.read = (*reader).string
	case reflect.Bool:
		p.read = (*reader).bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.read = (*reader).int
	case reflect.Pointer:
		p.read = readPointer(t.Elem(), makePlan(t.Elem(), making))
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // []byte is base64
			p.read = readSlice(t, makePlan(t.Elem(), making))
		}
	case reflect.Map:
		if k := t.Key(); k.Kind() == reflect.String && !k.Implements(textUnmarshaler) &&
			!reflect.PointerTo(k).Implements(textUnmarshaler) {
			p.read = readMap(t, makePlan(t.Elem(), making))
		}
	case reflect.Struct:
		fields := map[string]*field{}
		if addFields(fields, t, nil, making) {
			p.read = readStruct(fields, isObject(t) && fields[statusName] != nil)
		}
	}
}

// field is the destination of a member.
type field struct {
	index []int
	bit   uint64 // one per field of the struct
	plan  *plan
	// omitEmpty and omitZero are set if encoding/json omits the member for such values.
	omitEmpty, omitZero bool
}

// addFields adds the fields of a struct and of embedded structs. It returns false if
// encoding/json's precedence rules are needed.
func addFields(fields map[string]*field, t reflect.Type, index []int, making map[reflect.Type]*plan) bool {
	for n := range t.NumField() {
		f := t.Field(n)
		at := append(append([]int(nil), index...), n)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case strings.Contains(","+options+",", ",string,"), !isPlain(name), !f.IsExported():
			return false
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			if !addFields(fields, f.Type, at, making) {
				return false
			}
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Pointer:
			return false
		case name == "":
			name = f.Name
		}
		if len(fields) == 64 || fields[name] != nil {
			return false
		}
		fields[name] = &field{
			index: at, bit: 1 << len(fields), plan: makePlan(f.Type, making),
			omitEmpty: strings.Contains(","+options+",", ",omitempty,"),
			omitZero:  strings.Contains(","+options+",", ",omitzero,"),
		}
	}
	return true
}

// isPlain reports whether a name is valid for encoding/json and needs no escapes.
func isPlain(name string) bool {
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("$-./_", c)) {
			return false
		}
	}
	return true
}
