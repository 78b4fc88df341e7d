package jsondecode

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"kelson.dev/internal/tree"
)

// maxDepth is more than the nesting of any non-recursive type.
const maxDepth = 200

// reader decodes the data of one object.
type reader struct {
	tree.Parser
	share Sharing
	loss  tracker
}

// null skips a null, if it is next.
func (r *reader) null() bool {
	if r.Peek() != 'n' {
		return false
	}
	return r.word("null")
}

func (r *reader) word(w string) bool {
	if len(r.Data)-r.At < len(w) || string(r.Data[r.At:r.At+len(w)]) != w {
		return false
	}
	r.At += len(w)
	return true
}

// raw skips and validates a value.
func (r *reader) raw() ([]byte, error) {
	r.Peek()
	begin := r.At
	if err := r.Skip(); err != nil {
		return nil, err
	}
	raw := r.Data[begin:r.At]
	if !json.Valid(raw) { // also trims white space that Skip did not remove
		return nil, tree.ErrUnusual
	}
	return raw, nil
}

func (r *reader) string(v reflect.Value, _ int) error {
	if r.null() {
		r.lose()
		return nil
	}
	s, err := r.Text()
	if err == nil {
		v.SetString(s)
	}
	return err
}

func (r *reader) bool(v reflect.Value, _ int) error {
	switch r.Peek() {
	case 't':
		if r.word("true") {
			v.SetBool(true)
			return nil
		}
	case 'f':
		if r.word("false") {
			return nil
		}
	case 'n':
		if r.word("null") {
			r.lose()
			return nil
		}
	}
	return tree.ErrUnusual
}

// int reads an integer without fraction and exponent.
func (r *reader) int(v reflect.Value, _ int) error {
	if r.null() {
		r.lose()
		return nil
	}
	r.Peek()
	begin := r.At
	for r.At < len(r.Data) && (r.Data[r.At] >= '0' && r.Data[r.At] <= '9' || r.Data[r.At] == '-' && r.At == begin) {
		r.At++
	}
	text := r.Data[begin:r.At]
	if r.At < len(r.Data) {
		switch r.Data[r.At] {
		case '.', 'e', 'E':
			return tree.ErrUnusual
		}
	}
	if len(text) > 1 && (text[0] == '0' || text[0] == '-' && text[1] == '0') {
		return tree.ErrUnusual
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || v.OverflowInt(n) {
		return tree.ErrUnusual
	}
	v.SetInt(n)
	return nil
}

func (r *reader) any(v reflect.Value, _ int) error {
	value, err := r.Value()
	if err == nil && value != nil {
		v.Set(reflect.ValueOf(value))
	}
	return err
}

// time decodes a metav1.Time like its UnmarshalJSON.
func (r *reader) time(v reflect.Value, _ int) error {
	if r.null() {
		return nil
	}
	s, err := r.Text()
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return tree.ErrUnusual
	}
	if len(s) != len("2006-01-02T15:04:05Z") {
		r.lose() // the zone, or fractions of a second
	}
	v.Addr().Interface().(*metav1.Time).Time = at.Local()
	return nil
}

// fields decodes fieldsV1, usually shared with an earlier value.
func (r *reader) fields(v reflect.Value, _ int) error {
	if r.null() {
		return nil
	}
	r.Peek()
	begin := r.At
	if err := r.Skip(); err != nil {
		return err
	}
	raw := r.Data[begin:r.At]
	if r.share != nil {
		if known := r.share.FieldsV1(raw); known != nil {
			v.Set(reflect.ValueOf(known))
			return nil
		}
	}
	if !json.Valid(raw) {
		return tree.ErrUnusual
	}
	fields := &metav1.FieldsV1{}
	if err := fields.UnmarshalJSON(raw); err != nil {
		return tree.ErrUnusual
	}
	v.Set(reflect.ValueOf(fields))
	return nil
}

// itself calls the UnmarshalJSON of a value.
func (r *reader) itself(v reflect.Value, _ int) error {
	raw, err := r.raw()
	if err == nil && v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw) != nil {
		err = tree.ErrUnusual
	}
	return err
}

// other decodes a value with apimachinery's decoder.
func (r *reader) other(v reflect.Value, _ int) error {
	raw, err := r.raw()
	if err == nil && kjson.UnmarshalCaseSensitivePreserveInts(raw, v.Addr().Interface()) != nil {
		err = tree.ErrUnusual
	}
	return err
}

func (r *reader) textMap(v reflect.Value, _ int) error {
	if r.null() {
		return nil
	}
	n, err := r.count('{')
	if err != nil {
		return err
	}
	m := make(map[string]string, n)
	err = r.EachPlain(func(name []byte) error {
		var value string
		if r.null() {
			r.lose()
		} else {
			var err error
			if value, err = r.Text(); err != nil {
				return err
			}
		}
		m[r.text(name)] = value
		return nil
	})
	*v.Addr().Interface().(*map[string]string) = m
	return err
}

func (r *reader) text(b []byte) string {
	if r.share == nil {
		return string(b)
	}
	return r.share.Text(b)
}

func (r *reader) texts(v reflect.Value, _ int) error {
	if r.null() {
		return nil
	}
	n, err := r.count('[')
	if err != nil {
		return err
	}
	s := make([]string, n)
	r.loss.lists++
	err = r.elements(n, func(n int) (err error) {
		if r.null() {
			r.lose()
		} else {
			s[n], err = r.Text()
		}
		return err
	})
	r.loss.lists--
	*v.Addr().Interface().(*[]string) = s
	return err
}

func readPointer(elem reflect.Type, elemPlan *plan) func(*reader, reflect.Value, int) error {
	return func(r *reader, v reflect.Value, depth int) error {
		if r.null() {
			return nil
		}
		p := reflect.New(elem)
		v.Set(p)
		return elemPlan.read(r, p.Elem(), depth+1)
	}
}

func readSlice(t reflect.Type, elemPlan *plan) func(*reader, reflect.Value, int) error {
	return func(r *reader, v reflect.Value, depth int) error {
		if r.null() {
			return nil
		}
		n, err := r.count('[')
		if err != nil {
			return err
		}
		s := reflect.MakeSlice(t, n, n)
		v.Set(s)
		r.loss.lists++
		err = r.elements(n, func(n int) error { return elemPlan.read(r, s.Index(n), depth+1) })
		r.loss.lists--
		return err
	}
}

func readMap(t reflect.Type, elemPlan *plan) func(*reader, reflect.Value, int) error {
	return func(r *reader, v reflect.Value, depth int) error {
		if r.null() {
			return nil
		}
		n, err := r.count('{')
		if err != nil {
			return err
		}
		m := reflect.MakeMapWithSize(t, n)
		v.Set(m)
		return r.EachPlain(func(name []byte) error {
			key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			key.SetString(r.text(name))
			if err := elemPlan.read(r, value, depth+1); err != nil {
				return err
			}
			m.SetMapIndex(key, value)
			return nil
		})
	}
}

func readStruct(fields map[string]*field, isObject bool) func(*reader, reflect.Value, int) error {
	return func(r *reader, v reflect.Value, depth int) error {
		if r.null() {
			r.lose()
			return nil
		}
		if depth > maxDepth {
			return tree.ErrUnusual
		}
		var seen uint64
		err := r.EachPlain(func(name []byte) error {
			f := fields[string(name)]
			if f == nil {
				r.lose()
				_, err := r.raw()
				return err
			}
			if seen&f.bit != 0 {
				return tree.ErrUnusual
			}
			seen |= f.bit
			at := v
			for _, n := range f.index {
				at = at.Field(n)
			}
			if isObject && string(name) == statusName {
				return r.status(f, at, depth+1)
			}
			err := f.plan.read(r, at, depth+1)
			if r.loss.in && (f.omitEmpty && isEmpty(at) || f.omitZero && isZero(at)) {
				r.lose()
			}
			return err
		})
		if isObject && r.loss.found != Whole && err == nil {
			r.report(v)
		}
		return err
	}
}

// elements calls yield for each of count elements of an array.
func (r *reader) elements(count int, yield func(n int) error) error {
	if err := r.Take('['); err != nil {
		return err
	}
	if count == 0 {
		return r.Take(']')
	}
	for n := range count {
		if n > 0 {
			if err := r.Take(','); err != nil {
				return err
			}
		}
		if err := yield(n); err != nil {
			return err
		}
	}
	return r.Take(']')
}

// count returns the number of members or elements of the next value, which must begin with open.
func (r *reader) count(open byte) (int, error) {
	p := r.Parser // scans ahead
	if err := p.Take(open); err != nil {
		return 0, err
	}
	if c := p.Peek(); c == '}' || c == ']' {
		return 0, nil
	}
	for n := 1; ; n++ {
		if open == '{' {
			if p.Peek() != '"' {
				return 0, tree.ErrUnusual
			}
			if _, _, err := p.Quoted(); err != nil {
				return 0, err
			}
			if err := p.Take(':'); err != nil {
				return 0, err
			}
		}
		begin := p.At
		if err := p.Skip(); err != nil || p.At == begin {
			return 0, tree.ErrUnusual
		}
		switch p.Peek() {
		case ',':
			p.At++
		case '}', ']':
			return n, nil
		default:
			return 0, tree.ErrUnusual
		}
	}
}
