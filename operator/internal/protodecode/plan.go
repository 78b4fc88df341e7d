package protodecode

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/typecache"
)

// A plan describes how to decode a type.
type plan struct {
	t      reflect.Type
	size   uintptr
	how    how
	fields []field // in the order of their numbers
}

// how is the way to decode a message type.
type how uint8

const (
	byItself how = iota // with its own Unmarshal
	byFields
	asTime
	asQuantity
)

// field describes how to decode a field, and its destination.
type field struct {
	tag     uint64 // number and wire type
	offset  uintptr
	op      op
	t       reflect.Type // of the field
	message *plan        // of the field's message type, or of the message type of its elements
	alone   bool         // never shared: items of lists have fields that messages do not set
}

// op is the operation for a field.
type op uint8

const (
	_     op = iota
	aBool    // a number
	anInt32
	anInt64
	aBoolPointer
	anInt32Pointer
	anInt64Pointer
	manyInt32
	manyInt64

	lengths // the following ops are for length-delimited values
	aText
	aTextPointer
	someBytes
	aMessage
	aMessagePointer

	runs // the following ops are for all consecutive fields with a number
	manyTexts
	manyMessages
	maps // the following ops are for maps with string keys
	textMap
	bytesMap
	quantityMap
	messageMap
)

const (
	varint = 0
	bytes  = 2
)

var made typecache.Cache[plan]

func planOf(t reflect.Type) *plan { return made.Of(t, makePlan) }

type unmarshaler interface{ Unmarshal([]byte) error }

var (
	unmarshalerType = reflect.TypeFor[unmarshaler]()
	objectType      = reflect.TypeFor[runtime.Object]()
	timeType        = reflect.TypeFor[metav1.Time]()
	quantityType    = reflect.TypeFor[resource.Quantity]()
	fieldsType      = reflect.TypeFor[metav1.FieldsV1]()
)

// makePlan is for types that are messages.
func makePlan(t reflect.Type, making map[reflect.Type]*plan) *plan {
	if p := made.Known(t); p != nil {
		return p
	}
	if p := making[t]; p != nil {
		return p
	}
	p := &plan{t: t, size: t.Size()}
	making[t] = p
	switch {
	case t == timeType:
		p.how = asTime
	case t == quantityType:
		p.how = asQuantity
	case t != fieldsType && isGenerated(t):
		if fields, ok := fieldsOf(t, making); ok {
			p.how, p.fields = byFields, fields
		}
	}
	return p
}

// isGenerated reports whether the Unmarshal of a type follows its tags. This is known only for
// Kubernetes' own packages.
func isGenerated(t reflect.Type) bool {
	path := t.PkgPath()
	return t.Kind() == reflect.Struct && (strings.HasPrefix(path, "k8s.io/api/") ||
		strings.HasPrefix(path, "k8s.io/apimachinery/pkg/"))
}

// fieldsOf returns false if the type has an unsupported field, or no field: then it has a custom
// encoding.
func fieldsOf(t reflect.Type, making map[reflect.Type]*plan) (fields []field, ok bool) {
	for n := range t.NumField() {
		in := t.Field(n)
		tag := strings.Split(in.Tag.Get("protobuf"), ",")
		if tag[0] == "" || tag[0] == "-" {
			continue
		}
		if len(tag) < 2 || !in.IsExported() {
			return nil, false
		}
		number, err := strconv.ParseUint(tag[1], 10, 29)
		if err != nil || number == 0 {
			return nil, false
		}
		// Some tags don't determine the wire format; the Go type does.
		f := field{tag: number<<3 | bytes, offset: in.Offset, t: in.Type}
		if f.op = varintOp(in.Type); f.op != 0 {
			f.tag = number<<3 | varint
		} else if f.op, f.message = lengthOp(in.Type, making); f.op == 0 {
			f.op, f.message = runOp(in.Type, making)
		}
		if f.op == 0 {
			return nil, false
		}
		f.alone = f.op == manyMessages && reflect.PointerTo(f.message.t).Implements(objectType)
		fields = append(fields, f)
	}
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.tag, b.tag) })
	for n := range fields {
		if n > 0 && fields[n].tag>>3 == fields[n-1].tag>>3 {
			return nil, false
		}
	}
	return fields, len(fields) > 0
}

// varintOp and the following functions return the op for a Go type; zero if there is none.
func varintOp(t reflect.Type) op {
	ops := [...]op{aBool, anInt32, anInt64}
	switch {
	case isMessage(t):
		return 0
	case t.Kind() == reflect.Pointer:
		t, ops = t.Elem(), [...]op{aBoolPointer, anInt32Pointer, anInt64Pointer}
	case t.Kind() == reflect.Slice:
		t, ops = t.Elem(), [...]op{0, manyInt32, manyInt64}
	}
	switch t.Kind() {
	case reflect.Bool:
		return ops[0]
	case reflect.Int32, reflect.Uint32:
		return ops[1]
	case reflect.Int64, reflect.Uint64:
		return ops[2]
	}
	return 0
}

func lengthOp(t reflect.Type, making map[reflect.Type]*plan) (op, *plan) {
	switch {
	case isStruct(t):
		return aMessage, makePlan(t, making)
	case isText(t):
		return aText, nil
	case isBytes(t):
		return someBytes, nil
	case t.Kind() != reflect.Pointer:
	case isStruct(t.Elem()):
		return aMessagePointer, makePlan(t.Elem(), making)
	case isText(t.Elem()):
		return aTextPointer, nil
	}
	return 0, nil
}

func runOp(t reflect.Type, making map[reflect.Type]*plan) (op, *plan) {
	switch kind := t.Kind(); {
	case isMessage(t):
	case kind == reflect.Slice && isStruct(t.Elem()):
		return manyMessages, makePlan(t.Elem(), making)
	case kind == reflect.Slice && isText(t.Elem()):
		return manyTexts, nil
	case kind != reflect.Map || !isText(t.Key()):
	case t.Elem() == quantityType:
		return quantityMap, makePlan(t.Elem(), making)
	case isStruct(t.Elem()):
		return messageMap, makePlan(t.Elem(), making)
	case isText(t.Elem()):
		return textMap, nil
	case isBytes(t.Elem()):
		return bytesMap, nil
	}
	return 0, nil
}

func isMessage(t reflect.Type) bool { return reflect.PointerTo(t).Implements(unmarshalerType) }

// isStruct excludes messages that are slices: whether they are nil when empty depends on their
// place.
func isStruct(t reflect.Type) bool { return t.Kind() == reflect.Struct && isMessage(t) }

func isText(t reflect.Type) bool { return t.Kind() == reflect.String && !isMessage(t) }

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}
