package builtin

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A quantity such as 1e2000000000 is well-formed, but Kubernetes computes the power of ten to
// compare it, or already to parse it, which takes minutes. Therefore, the codec checks the text of
// quantities before any decoder parses them.
const (
	maxExponentDigits = 3   // of the exponent after "e", without leading zeros
	maxQuantityLength = 256 // bytes
)

// errQuantity is the detail of the error for a quantity that is refused.
const errQuantity = "must have at most 256 characters and be between 1e-999 and 1e999"

// unaffordable reports whether the text of a quantity is too long or has too large an exponent. It
// returns false for other text that is not a quantity; parsing it fails quickly.
func unaffordable(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > maxQuantityLength {
		return true
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return false
	}
	exponent := text[at+1:]
	if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
		exponent = exponent[1:]
	}
	exponent = strings.TrimLeft(exponent, "0")
	return len(exponent) > maxExponentDigits && strings.Trim(exponent, "0123456789") == ""
}

// unaffordableValue is unaffordable for a parsed quantity. Quantity's own methods would compute
// powers of ten, so it reads the scale from the private field.
func unaffordableValue(q reflect.Value) bool {
	amount := q.Field(0).Field(1).Int()
	if dec := q.Field(1).Field(0); !dec.IsNil() {
		amount = dec.Elem().FieldByName("scale").Int()
	}
	return amount > 999 || amount < -999
}

// maySpend reports whether JSON may contain a quantity that unaffordable refuses: a number with an
// exponent of more than three digits, or a long one. JSON escapes need no attention, because the
// decoders give Quantity the raw bytes of a string. Most objects contain neither, so it looks only
// at every fourth byte: it takes 0.3 ns per byte.
func maySpend(data []byte) bool {
	for i := maxExponentDigits; i < len(data); i += maxExponentDigits + 1 {
		if !isDigit(data[i]) {
			continue
		}
		first, last := i, i
		for first > 0 && isDigit(data[first-1]) {
			first--
		}
		for last+1 < len(data) && isDigit(data[last+1]) {
			last++
		}
		i = last
		if last-first >= maxQuantityLength/4 {
			return true
		}
		if last-first < maxExponentDigits || last+1 < len(data) && isWord(data[last+1]) {
			continue
		}
		at := first - 1
		if at >= 0 && (data[at] == '-' || data[at] == '+') {
			at--
		}
		if at < 1 || data[at]|0x20 != 'e' {
			continue
		}
		mantissa := at - 1
		for mantissa >= 0 && (isDigit(data[mantissa]) || data[mantissa] == '.') {
			mantissa--
		}
		if mantissa == at-1 {
			continue
		}
		if mantissa >= 0 && (data[mantissa] == '-' || data[mantissa] == '+') {
			mantissa--
		}
		if mantissa < 0 || !isWord(data[mantissa]) {
			return true
		}
	}
	return false
}

func isDigit(b byte) bool { return b-'0' <= 9 }

// isWord reports whether a byte continues a word, such as a name or a UID.
func isWord(b byte) bool {
	return isDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'z' || b == '-' || b == '_'
}

// quantities describes where values of a type contain quantities. It is nil for types without any.
type quantities struct {
	leaf bool // the value is a quantity
	// text means that the value is a string that may contain JSON with quantities: an annotation of
	// a HorizontalPodAutoscaler, in which autoscaling/v1 keeps what it has no fields for.
	text      bool
	holdsText bool        // on the type of a whole object: there is text
	elem      *quantities // of a list or map
	isMap     bool
	fields    []quantityField
	byName    map[string]*quantities // fields in JSON, including those of inlined structs
	byNumber  map[uint64]*quantityField
}

type quantityField struct {
	name  string // "" if the field is inlined
	index int    // in the struct
	at    *quantities
}

// quantityTypes caches quantitiesOf by type.
var quantityTypes sync.Map

// quantitiesOf returns where values of a type contain quantities.
func quantitiesOf(t reflect.Type) *quantities {
	if cached, ok := quantityTypes.Load(t); ok {
		return cached.(*quantities)
	}
	q := findQuantities(t, map[reflect.Type]bool{})
	if t.Kind() == reflect.Struct && t.Name() == "HorizontalPodAutoscaler" {
		q = withAnnotations(t, q)
	}
	quantityTypes.Store(t, q)
	return q
}

// findQuantities computes quantitiesOf. No type that contains itself has quantities, so a type in
// outer contributes none.
func findQuantities(t reflect.Type, outer map[reflect.Type]bool) *quantities {
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return &quantities{leaf: true}
	case outer[t]:
		return nil
	}
	outer[t] = true
	defer delete(outer, t)
	switch t.Kind() {
	case reflect.Pointer:
		return findQuantities(t.Elem(), outer)
	case reflect.Slice, reflect.Map:
		if elem := findQuantities(t.Elem(), outer); elem != nil {
			return &quantities{elem: elem, isMap: t.Kind() == reflect.Map}
		}
	case reflect.Struct:
		var q quantities
		for i := range t.NumField() {
			if at := findQuantities(t.Field(i).Type, outer); at != nil {
				q.add(t.Field(i), i, at)
			}
		}
		if len(q.fields) > 0 {
			return &q
		}
	}
	return nil
}

// add adds a field of a struct.
func (q *quantities) add(f reflect.StructField, index int, at *quantities) {
	if q.byName == nil {
		q.byName, q.byNumber = map[string]*quantities{}, map[uint64]*quantityField{}
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" && !f.Anonymous {
		name = f.Name // internal types have no tags
	}
	if name == "" {
		maps.Copy(q.byName, at.byName)
	} else {
		q.byName[name] = at
	}
	entry := quantityField{name: name, index: index, at: at}
	q.fields = append(q.fields, entry)
	if parts := strings.Split(f.Tag.Get("protobuf"), ","); len(parts) > 1 {
		if number, err := strconv.ParseUint(parts[1], 10, 32); err == nil {
			q.byNumber[number] = &entry
		}
	}
}

// withAnnotations adds the annotations to the quantities of an object.
func withAnnotations(t reflect.Type, q *quantities) *quantities {
	if q == nil {
		q = &quantities{}
	}
	add := func(to *quantities, t reflect.Type, name string, at *quantities) *quantities {
		if f, ok := t.FieldByName(name); ok {
			to.add(f, f.Index[0], at)
		}
		return to
	}
	annotations := &quantities{elem: &quantities{text: true}, isMap: true}
	q.holdsText = true
	return add(q, t, "ObjectMeta", add(&quantities{}, reflect.TypeFor[metav1.ObjectMeta](), "Annotations", annotations))
}

// parsedAnnotation reports whether the conversion of a HorizontalPodAutoscaler parses an
// annotation.
func parsedAnnotation(key string) bool {
	return strings.HasPrefix(key, "autoscaling.alpha.kubernetes.io/")
}

// wrongQuantity is the error for a quantity that is refused.
type wrongQuantity struct {
	path  string
	value string
}

// under adds the field, index or key that contains the value.
func (w *wrongQuantity) under(name string) *wrongQuantity {
	switch {
	case w == nil || name == "":
	case w.path == "" || w.path[0] == '[':
		w.path = name + w.path
	default:
		w.path = name + "." + w.path
	}
	return w
}

func member(key any) string { return fmt.Sprintf("[%v]", key) }

// err returns the response for an object of a kind; nil if w is nil.
func (w *wrongQuantity) err(kind schema.GroupKind) error {
	if w == nil {
		return nil
	}
	value := w.value
	if len(value) > maxQuantityLength {
		value = value[:maxQuantityLength] + "..."
	}
	return apierrors.NewInvalid(kind, "", field.ErrorList{field.Invalid(field.NewPath(w.path), value, errQuantity)})
}

// check checks a leaf or text.
func (q *quantities) check(text string) *wrongQuantity {
	if q.leaf && unaffordable(text) || q.text && maySpend([]byte(text)) {
		return &wrongQuantity{value: text}
	}
	return nil
}

// inTree checks a value as decoded from JSON or CBOR to maps and lists.
func (q *quantities) inTree(value any) *wrongQuantity {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			switch {
			case q.isMap:
				if q.elem.text && !parsedAnnotation(key) {
					continue
				}
				if wrong := q.elem.inTree(v); wrong != nil {
					return wrong.under(member(key))
				}
			case q.byName[key] != nil:
				if wrong := q.byName[key].inTree(v); wrong != nil {
					return wrong.under(key)
				}
			}
		}
	case []any:
		if q.elem == nil || q.isMap {
			return nil
		}
		for i, v := range value {
			if wrong := q.elem.inTree(v); wrong != nil {
				return wrong.under(member(i))
			}
		}
	case string:
		return q.check(value)
	}
	return nil
}

// inObject checks a Go value, which was decoded before.
func (q *quantities) inObject(v reflect.Value) *wrongQuantity {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch {
	case q.leaf:
		if unaffordableValue(v) {
			return &wrongQuantity{value: "a number with a large exponent"}
		}
	case q.text:
		return q.check(v.String())
	case q.isMap:
		for entries := v.MapRange(); entries.Next(); {
			if q.elem.text && !parsedAnnotation(entries.Key().String()) {
				continue
			}
			if wrong := q.elem.inObject(entries.Value()); wrong != nil {
				return wrong.under(member(entries.Key()))
			}
		}
	case q.elem != nil:
		for i := range v.Len() {
			if wrong := q.elem.inObject(v.Index(i)); wrong != nil {
				return wrong.under(member(i))
			}
		}
	}
	for i := range q.fields {
		if wrong := q.fields[i].at.inObject(v.Field(q.fields[i].index)); wrong != nil {
			return wrong.under(q.fields[i].name)
		}
	}
	return nil
}

// inJSON checks the next value of a decoder, including values of duplicate fields. q may be nil. It
// returns nil for malformed JSON, which cannot be decoded either.
func (q *quantities) inJSON(d *json.Decoder) (*wrongQuantity, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		for i := 0; d.More(); i++ {
			var at *quantities
			name := ""
			if token == '{' {
				key, err := d.Token()
				if err != nil {
					return nil, err
				}
				name, _ = key.(string)
			}
			switch {
			case q == nil:
			case token == '{' && q.isMap && q.elem.text && !parsedAnnotation(name):
			case token == '{' && q.isMap:
				at, name = q.elem, member(name)
			case token == '{':
				at = q.byName[name]
			case !q.isMap:
				at, name = q.elem, member(i)
			}
			if wrong, err := at.inJSON(d); wrong != nil || err != nil {
				return wrong.under(name), err
			}
		}
		_, err := d.Token()
		return nil, err
	case string:
		if q != nil {
			return q.check(token), nil
		}
	case json.Number:
		if q != nil {
			return q.check(token.String()), nil
		}
	}
	return nil, nil
}
