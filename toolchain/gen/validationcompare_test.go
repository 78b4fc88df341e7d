package gen_test

// compare is a program that validates random objects with two functions of each type and prints
// where their errors differ. The test replaces the upper-case words.
const compare = `package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"
IMPORTS
)

var (
	objects, invalid, panics, errors, differ int
	types = map[string]bool{}
	kinds = map[string]bool{} // of errors
)

func main() {
CHECKS
	fmt.Printf("types %d objects %d invalid %d errors %d kinds %d panics %d differ %d\n", len(types), objects, invalid, errors, len(kinds), panics, differ)
}

type validate[T any] func(ctx context.Context, op operation.Operation, path *field.Path, obj, old T) field.ErrorList

// check compares two functions. words are strings and numbers that occur in the package.
func check[T any](name string, theirs, ours validate[T], words []string, options []string) {
	types[name] = true
	reported := 0
	for seed := range uint64(ROUNDS) {
		r := &filler{Rand: rand.New(rand.NewPCG(seed, 7)), words: words}
		obj, old := fresh[T](r), fresh[T](r)
		op := operation.Operation{Options: map[string]bool{}}
		for _, o := range options {
			if r.IntN(20) > 0 {
				op.Options[o] = r.IntN(2) == 0
			}
		}
		var null T
		switch r.IntN(4) {
		case 0, 1:
			old = null
		case 2: // the old object is a changed copy
			op.Type = operation.Update
			again := &filler{Rand: rand.New(rand.NewPCG(seed, 7)), words: words}
			old = fresh[T](again)
			again.Rand = r.Rand
			again.change(reflect.ValueOf(old))
		case 3:
			op.Type = operation.Update
		}
		objects++
		want, failed := run(theirs, op, obj, old)
		got, broken := run(ours, op, obj, old)
		if failed != "" {
			panics++
			if broken == "" {
				continue
			}
		}
		for _, e := range want {
			errors++
			kinds[strings.Fields(e)[0]] = true
		}
		if len(want) > 0 {
			invalid++
		}
		a, b := strings.Join(without(want, got), "\n   "), strings.Join(without(got, want), "\n   ")
		if !slices.Equal(want, got) || broken != "" {
			differ++
			if reported++; reported <= 2 {
				fmt.Printf("DIFFER %s seed %d op %v\n  only theirs\n   %s\n  only ours\n   %s %s\n", name, seed, op, a, b, broken)
			}
		}
	}
}

func run[T any](f validate[T], op operation.Operation, obj, old T) (lines []string, panicked string) {
	defer func() {
		if p := recover(); p != nil {
			panicked = fmt.Sprint("panic: ", p)
		}
	}()
	for _, e := range f(context.Background(), op, field.NewPath("root"), obj, old) {
		lines = append(lines, fmt.Sprintf("%s %s value=%v detail=%s origin=%s alpha=%t beta=%t", strings.ReplaceAll(string(e.Type), " ", ""), e.Field, show(e.BadValue), e.Detail, e.Origin, e.IsAlpha(), e.IsBeta()))
	}
	sort.Strings(lines)
	return lines, ""
}

// without returns the lines of a that b does not have.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func show(v any) string {
	s := fmt.Sprintf("%+v", v)
	if strings.Contains(s, "0x") {
		return fmt.Sprintf("%T", v)
	}
	return s
}

func fresh[T any](r *filler) T {
	v := reflect.New(reflect.TypeFor[T]()).Elem()
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		r.fill(v.Elem(), 0)
	} else {
		r.fill(v, 0)
	}
	return v.Interface().(T)
}

type filler struct {
	*rand.Rand
	words []string
}

var general = []string{"", "", "a", "b", "abc", "a-b", "x.y/z", "Upper", "é", "123e4567-e89b-12d3-a456-426614174000", "example.com/name", strings.Repeat("x", 300), "pods", "1"}

func (r *filler) word() string {
	if len(r.words) > 0 && r.IntN(2) == 0 {
		return r.words[r.IntN(len(r.words))]
	}
	return general[r.IntN(len(general))]
}

var numbers = []int64{0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 9, 10, 11, 42, 99, 100, 101, -1, -2, 1000, 65535, 65536, 1 << 31}

func (r *filler) fill(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.word())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(numbers[r.IntN(len(numbers))])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(max(0, numbers[r.IntN(len(numbers))])))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(numbers[r.IntN(len(numbers))]))
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				r.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				r.fill(key, depth+1)
				r.fill(value, depth+1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		if strings.HasPrefix(v.Type().PkgPath(), "time") || v.Type().Name() == "ObjectMeta" || v.Type().Name() == "Time" || v.Type().Name() == "Quantity" {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				r.fill(v.Field(i), depth+1)
			}
		}
	}
}

// change fills a few parts of a value again.
func (r *filler) change(v reflect.Value) {
	if v.CanSet() && v.Kind() != reflect.Struct && r.IntN(8) == 0 {
		v.SetZero()
		r.fill(v, 3)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			r.change(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.change(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				r.change(v.Field(i))
			}
		}
	}
}
`
