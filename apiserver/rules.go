package apiserver

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Values with rules for a kind may implement these interfaces. H is the pointer type of the kind's
// hub. Objects are private to the call; old must not be changed. All methods must be safe for
// concurrent use.
type (
	// Defaulter sets defaults of the hub, after those that its method Default() sets. It runs when
	// an object is read or written, in every version, and must give the same result when it runs
	// again.
	Defaulter[H any] interface {
		Default(obj H)
	}
	// CreatePreparer changes an object before it is validated and created. The server has already
	// cleared the status and set the generation.
	CreatePreparer[H any] interface {
		PrepareForCreate(ctx context.Context, obj H)
	}
	// UpdatePreparer changes an object before it is validated and updated. The server has already
	// restored the status of old.
	UpdatePreparer[H any] interface {
		PrepareForUpdate(ctx context.Context, obj, old H)
	}
	// StatusPreparer changes an object before its status is validated and updated. The server has
	// already restored everything else of old.
	StatusPreparer[H any] interface {
		PrepareForStatusUpdate(ctx context.Context, obj, old H)
	}
	// Validator validates an object before it is created and before it is updated.
	Validator[H any] interface {
		Validate(ctx context.Context, obj H) field.ErrorList
	}
	// UpdateValidator validates a change, in addition to a Validator.
	UpdateValidator[H any] interface {
		ValidateUpdate(ctx context.Context, obj, old H) field.ErrorList
	}
	// StatusValidator validates an update of the status.
	StatusValidator[H any] interface {
		ValidateStatusUpdate(ctx context.Context, obj, old H) field.ErrorList
	}
	// Options reports, for each option that +k8s:ifEnabled and +k8s:ifDisabled name, whether it is
	// on. It must name all of them; old is nil for a create.
	Options[H any] interface {
		ValidationOptions(ctx context.Context, obj, old H) map[string]bool
	}
	// Warner returns warnings for the client; old is nil for a create.
	Warner[H any] interface {
		Warnings(ctx context.Context, obj, old H) []string
	}
	// Canonicalizer brings a valid object into its canonical form before it is stored.
	Canonicalizer[H any] interface {
		Canonicalize(obj H)
	}
	// Columns returns the columns of kubectl get. The server adds the columns Name and Age.
	Columns[H any] interface {
		Columns() []Column[H]
	}
	// Selectable returns the fields that field selectors may name, in addition to metadata.name and
	// metadata.namespace. It must have the same keys for all objects.
	Selectable[H any] interface {
		Fields(obj H) fields.Set
	}
	// GraceKeeper returns how many seconds an object remains after its deletion was requested.
	// requested is the grace period in the client's request, or nil. With 0 the object is deleted
	// immediately. Otherwise the server sets metadata.deletionTimestamp, and the object remains
	// until it is deleted with a grace period of 0.
	GraceKeeper[H any] interface {
		GracePeriodSeconds(ctx context.Context, obj H, requested *int64) int64
	}
)

// Column is a column of kubectl get.
type Column[H any] struct {
	Name string
	// Type is string, integer, number, boolean or date; "" means string. kubectl prints a time in a
	// column of the type date as an age, such as 5m.
	Type        string
	Description string
	// Priority 0 is always shown, a higher one only with -o wide.
	Priority int32
	// Value returns the cell of an object: a string, a number, a bool, a time, a fmt.Stringer, or a
	// pointer to one of them. The cell of a nil pointer is empty.
	Value func(obj H) any
}

// rules holds the rules of a kind as functions that do not depend on its type.
type rules struct {
	defaults                       []func(obj runtime.Object)
	prepareCreate                  []func(ctx context.Context, obj runtime.Object)
	prepareUpdate, prepareStatus   []func(ctx context.Context, obj, old runtime.Object)
	validate                       []func(ctx context.Context, obj runtime.Object) field.ErrorList
	validateUpdate, validateStatus []func(ctx context.Context, obj, old runtime.Object) field.ErrorList
	options                        []func(ctx context.Context, obj, old runtime.Object) map[string]bool
	warnings                       []func(ctx context.Context, obj, old runtime.Object) []string
	canonicalize                   []func(obj runtime.Object)
	columns                        []column
	fields                         func(obj runtime.Object) fields.Set
	grace                          func(ctx context.Context, obj runtime.Object, requested *int64) int64
}

// hook is one of the interfaces that rules may implement.
type hook struct {
	name string
	want reflect.Type // the interface
	use  func(value any)
}

func hookOf[I any](use func(I)) hook {
	t := reflect.TypeFor[I]()
	return hook{name: t.Method(0).Name, want: t, use: func(value any) { use(value.(I)) }}
}

// nilOr returns obj as an H, or the zero H for nil.
func nilOr[H any](obj runtime.Object) H {
	h, _ := obj.(H)
	return h
}

func hooks[H runtime.Object](r *rules) []hook {
	pair := func(f func(context.Context, H, H)) func(context.Context, runtime.Object, runtime.Object) {
		return func(ctx context.Context, obj, old runtime.Object) { f(ctx, obj.(H), nilOr[H](old)) }
	}
	errs := func(f func(context.Context, H, H) field.ErrorList) func(context.Context, runtime.Object,
		runtime.Object) field.ErrorList {
		return func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			return f(ctx, obj.(H), nilOr[H](old))
		}
	}
	return []hook{
		hookOf(func(v Defaulter[H]) {
			r.defaults = append(r.defaults, func(obj runtime.Object) { v.Default(obj.(H)) })
		}),
		hookOf(func(v CreatePreparer[H]) {
			r.prepareCreate = append(r.prepareCreate, func(ctx context.Context, obj runtime.Object) {
				v.PrepareForCreate(ctx, obj.(H))
			})
		}),
		hookOf(func(v UpdatePreparer[H]) { r.prepareUpdate = append(r.prepareUpdate, pair(v.PrepareForUpdate)) }),
		hookOf(func(v StatusPreparer[H]) { r.prepareStatus = append(r.prepareStatus, pair(v.PrepareForStatusUpdate)) }),
		hookOf(func(v Validator[H]) {
			r.validate = append(r.validate, func(ctx context.Context, obj runtime.Object) field.ErrorList {
				return v.Validate(ctx, obj.(H))
			})
		}),
		hookOf(func(v UpdateValidator[H]) { r.validateUpdate = append(r.validateUpdate, errs(v.ValidateUpdate)) }),
		hookOf(func(v StatusValidator[H]) {
			r.validateStatus = append(r.validateStatus, errs(v.ValidateStatusUpdate))
		}),
		hookOf(func(v Options[H]) {
			r.options = append(r.options, func(ctx context.Context, obj, old runtime.Object) map[string]bool {
				return v.ValidationOptions(ctx, obj.(H), nilOr[H](old))
			})
		}),
		hookOf(func(v Warner[H]) {
			r.warnings = append(r.warnings, func(ctx context.Context, obj, old runtime.Object) []string {
				return v.Warnings(ctx, obj.(H), nilOr[H](old))
			})
		}),
		hookOf(func(v Canonicalizer[H]) {
			r.canonicalize = append(r.canonicalize, func(obj runtime.Object) { v.Canonicalize(obj.(H)) })
		}),
		hookOf(func(v Columns[H]) {
			for _, c := range v.Columns() {
				r.columns = append(r.columns, column{
					name: c.Name, kind: c.Type, description: c.Description, priority: c.Priority,
					value: func(obj runtime.Object) any { return c.Value(obj.(H)) },
				})
			}
		}),
		hookOf(func(v Selectable[H]) {
			r.fields = func(obj runtime.Object) fields.Set { return maps.Clone(v.Fields(obj.(H))) }
		}),
		hookOf(func(v GraceKeeper[H]) {
			r.grace = func(ctx context.Context, obj runtime.Object, requested *int64) int64 {
				return v.GracePeriodSeconds(ctx, obj.(H), requested)
			}
		}),
	}
}

// adopt adds the rules that a value implements. A method with the name of a rule and another
// signature is an error, and so is a value without rules: both would be ignored silently.
func adopt[H runtime.Object](r *rules, value any) error {
	t := reflect.TypeOf(value)
	if t == nil {
		return fmt.Errorf("rules of %s: nil", reflect.TypeFor[H]())
	}
	found := false
	for _, h := range hooks[H](r) {
		if t.Implements(h.want) {
			h.use(value)
			found = true
			continue
		}
		if m, has := t.MethodByName(h.name); has {
			return fmt.Errorf("rules %s: the method %s must be %s, and is %s", t, h.name,
				signature(h.want.Method(0).Type, false), signature(m.Type, true))
		}
	}
	if !found {
		return fmt.Errorf("rules %s of %s: has no method of a rule, such as Validate(context.Context, %s) field.ErrorList", t, reflect.TypeFor[H](), reflect.TypeFor[H]())
	}
	return nil
}

// signature formats the type of a method, without its receiver.
func signature(t reflect.Type, receiver bool) string {
	text := t.String()
	if !receiver {
		return text
	}
	rest := strings.TrimPrefix(text, "func("+t.In(0).String())
	return "func(" + strings.TrimPrefix(rest, ", ")
}
