// Package schema generates methods with which custom API servers describe Go types whose schemas
// they derive by reflection:
//
//	// SwaggerDoc returns the descriptions of PizzaSpec and its fields.
//	func (PizzaSpec) SwaggerDoc() map[string]string
//	// OpenAPIMerge returns how server-side apply merges the fields of PizzaSpec.
//	func (PizzaSpec) OpenAPIMerge() map[string][]string
//
// Descriptions are the comments of types and fields. The strategy of a merge is that of the markers
// listType and listMapKey, with and without the prefix k8s:, mapType and structType, on the field
// or on its type: "atomic", "granular", "set", or "map" with the keys of the list.
package schema

import (
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// FileName is the name of the generated file, next to the types.
const FileName = "zz_generated.schema.go"

// Generate returns the Go source, or nil if there is nothing to describe. It writes no method that
// a type has already. The error joins all errors, each a *loader.Error with a position.
func Generate(api *model.API, pkg *model.Package, header string) ([]byte, error) {
	f := source.New(pkg.Path, pkg.Name)
	var errs []error
	for _, t := range pkg.Types {
		if _, ok := t.Type().Underlying().(*loader.Struct); !ok || t.Generic() || !ast.IsExported(t.Name) ||
			t.IsList() {
			continue
		}
		docs, merges := map[string]string{}, map[string][]string{}
		if t.Doc != "" {
			docs[""] = t.Doc
		}
		for _, field := range t.Fields {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if field.Doc != "" {
				docs[name] = field.Doc
			}
			merge, err := mergeOf(api, field)
			if err != nil {
				errs = append(errs, err)
			} else if merge != nil {
				merges[name] = merge
			}
		}
		write(f, t, docs, merges)
	}
	if err := errors.Join(errs...); err != nil || f.Len() == 0 {
		return nil, err
	}
	return f.Bytes(source.Options{Header: header, Constraint: source.Constraint})
}

// mergeOf returns how a field merges, or nil if no marker sets this.
func mergeOf(api *model.API, f *model.Field) ([]string, error) {
	markers := slices.Clone(f.Markers)
	if n, ok := loader.Deref(f.Type()).(*loader.Named); ok {
		markers = append(markers, api.Type(n.Decl).Markers...)
	}
	var strategy *marker.Marker
	var keys []string
	for _, m := range markers {
		switch strings.TrimPrefix(m.Name, "k8s:") {
		case "listType", "mapType", "structType":
			if strategy == nil {
				strategy = m
			}
		case "listMapKey":
			if !slices.Contains(keys, m.Text()) {
				keys = append(keys, m.Text())
			}
		}
	}
	if strategy == nil {
		return nil, nil
	}
	allowed := []string{"atomic", "granular"}
	if strings.HasSuffix(strategy.Name, "listType") {
		allowed = []string{"atomic", "set", "map"}
	}
	invalid := func(format string, args ...any) ([]string, error) {
		if strings.HasPrefix(strategy.Name, "k8s:") {
			return nil, nil // package validation reports it
		}
		return nil, loader.Errorf(strategy.Pos, format, args...)
	}
	switch text := strategy.Text(); {
	case !slices.Contains(allowed, text):
		return invalid("+%s=%s: must be %s", strategy.Name, text, strings.Join(allowed, ", "))
	case text == "map" && len(keys) == 0:
		return invalid("+%s=map needs +listMapKey", strategy.Name)
	case text != "map" && len(keys) > 0:
		return invalid("+listMapKey needs +%s=map", strategy.Name)
	}
	return append([]string{strategy.Text()}, keys...), nil
}

// write writes the methods of a type that it does not have.
func write(f *source.File, t *model.Type, docs map[string]string, merges map[string][]string) {
	var lines strings.Builder
	if len(docs) > 0 && loader.FindMethod(t.Type(), "SwaggerDoc") == nil {
		for _, name := range sorted(docs) {
			fmt.Fprintf(&lines, "\t\t%q: %q,\n", name, docs[name])
		}
		f.Printf("// SwaggerDoc returns the descriptions of %s and its fields.\nfunc (%s) SwaggerDoc() map[string]string {\n\treturn map[string]string{\n%s\t}\n}\n", t.Name, t.Name, &lines)
	}
	if len(merges) > 0 && loader.FindMethod(t.Type(), "OpenAPIMerge") == nil {
		lines.Reset()
		for _, name := range sorted(merges) {
			fmt.Fprintf(&lines, "\t\t%q: {%s},\n", name, quoted(merges[name]))
		}
		f.Printf("// OpenAPIMerge returns how server-side apply merges the fields of %s.\nfunc (%s) OpenAPIMerge() map[string][]string {\n\treturn map[string][]string{\n%s\t}\n}\n", t.Name, t.Name, &lines)
	}
}

func sorted[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}

func quoted(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return strings.Join(all, ", ")
}

// instead names the replacements for markers that only affect CustomResourceDefinitions.
var instead = map[string]string{
	"kubebuilder:default":                       "a method Default",
	"default":                                   "a method Default",
	"kubebuilder:printcolumn":                   "a method Columns of its rules",
	"kubebuilder:selectablefield":               "a method Fields of its rules",
	"kubebuilder:validation:XValidation":        "a method Validate of its rules",
	"kubebuilder:validation:Pattern":            "a method Validate of its rules",
	"kubebuilder:validation:Minimum":            "+k8s:minimum",
	"kubebuilder:validation:Maximum":            "+k8s:maximum",
	"kubebuilder:validation:MinLength":          "+k8s:minLength",
	"kubebuilder:validation:MaxLength":          "+k8s:maxLength",
	"kubebuilder:validation:MinItems":           "+k8s:minItems",
	"kubebuilder:validation:MaxItems":           "+k8s:maxItems",
	"kubebuilder:validation:Enum":               "+k8s:enum",
	"kubebuilder:validation:Format":             "+k8s:format",
	"kubebuilder:validation:Required":           "+k8s:required",
	"kubebuilder:validation:AtMostOneOf":        "+k8s:zeroOrOneOfMember",
	"kubebuilder:validation:ExactlyOneOf":       "+k8s:unionMember",
	"kubebuilder:deprecatedversion":             "apiserver.Deprecated",
	"kubebuilder:unservedversion":               "apiserver.Unserved",
	"kubebuilder:pruning:PreserveUnknownFields": "a field of the type runtime.RawExtension",
}

// Ignored returns an error for each marker in the package that has no effect on a kind of a custom
// API server. The error names the replacement.
func Ignored(api *model.API, pkg *model.Package) (all []error) {
	check := func(markers marker.Markers) {
		for _, m := range markers {
			use, known := instead[m.Name]
			if !known && !strings.HasPrefix(m.Name, "kubebuilder:validation:") ||
				m.Name == "kubebuilder:validation:Optional" {
				continue
			}
			if !known {
				use = "+k8s: markers, or a method Validate of its rules"
			}
			all = append(all, loader.Errorf(m.Pos, "+%s has no effect on a kind of a custom API server: use %s", m.Name,
				use))
		}
	}
	for _, t := range pkg.Types {
		check(t.Markers)
		for _, f := range t.Fields {
			check(f.Markers)
		}
	}
	return all
}
