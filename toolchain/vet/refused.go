package vet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// maxAttempts bounds the dry runs for one object.
const maxAttempts = 20

// create tries dry-run creations of an object. An API server that cannot decode an object reports
// one field and validates nothing, so create tries again without what it reported, until the
// server has validated the rest.
func (e *checker) create(ctx context.Context, m *Manifest, in dynamic.ResourceInterface) []Finding {
	var findings []Finding
	obj, validation := m.Object, metav1.FieldValidationStrict
	removed := map[string]bool{} // by path
	for attempt := range maxAttempts {
		_, err := in.Create(ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll},
			FieldValidation: validation})
		for _, text := range e.warnings.take() {
			if attempt == 0 {
				findings = append(findings, m.finding(Warning, "", "%s", text))
			}
		}
		// the server makes this check last, so the object passed all others
		if err == nil || apierrors.IsAlreadyExists(err) {
			return findings
		}
		if unknown := m.unknown(err); len(unknown) > 0 && validation == metav1.FieldValidationStrict {
			findings, validation = append(findings, unknown...), metav1.FieldValidationIgnore
			continue
		}
		if wrong, ok := mistyped(err, obj.Object); ok && !removed[wrong.path()] {
			findings = append(findings, m.finding(Error, wrong.path(), "%s", wrong.text))
			removed[wrong.path()] = true
			obj = obj.DeepCopy()
			remove(obj.Object, wrong.steps)
			continue
		}
		return append(findings, slices.DeleteFunc(m.refused(err), func(f Finding) bool { return m.follows(f, removed) })...)
	}
	return findings
}

// follows reports whether a finding is only due to a removed field: it is about the field, or about
// the value that the server has set another field beside it to.
func (m *Manifest) follows(f Finding, removed map[string]bool) bool {
	if removed[f.Path] {
		return true
	}
	if strings.HasPrefix(f.Message, "Required value") || m.has(f.Path) {
		return false
	}
	for path := range removed {
		if parent(path) == parent(f.Path) {
			return true
		}
	}
	return false
}

// parent returns the path without its last name or index.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// strict matches the fields in errors of strict field validation.
var strict = regexp.MustCompile(`(unknown|duplicate) field "([^"]+)"`)

// unknown returns the findings of an error of strict field validation.
func (m *Manifest) unknown(err error) []Finding {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		return nil
	}
	var findings []Finding
	for _, found := range strict.FindAllStringSubmatch(status.Status().Message, -1) {
		findings = append(findings, m.finding(Error, found[2], "%s field", found[1]))
	}
	return findings
}

// ownRange matches errors about addresses and ports outside of the ranges of the temporary server.
// Clusters have others.
var ownRange = regexp.MustCompile(`The range of valid IPs is|provided port is not in the valid range`)

// refused converts an error into findings, one per cause.
func (m *Manifest) refused(err error) []Finding {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return []Finding{m.finding(Error, "", "%v", err)}
	}
	s := status.Status()
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return []Finding{m.finding(Error, "", "%s", s.Message)}
	}
	var findings []Finding
	for _, c := range s.Details.Causes {
		if m.Object.GetKind() == "Service" && ownRange.MatchString(c.Message) {
			continue
		}
		findings = append(findings, m.finding(Error, m.written(c.Field), "%s", c.Message))
	}
	return findings
}

// written returns the path in the document of a field in a server error. For a definition with one
// version, the server uses the internal type's paths, such as spec.validation.
func (m *Manifest) written(path string) string {
	if path == "<nil>" {
		return ""
	}
	if isDefinition(m) {
		for _, once := range []struct{ said, written string }{
			{"spec.validation", "schema"}, {"spec.subresources", "subresources"},
			{"spec.additionalPrinterColumns", "additionalPrinterColumns"},
			{"spec.selectableFields", "selectableFields"},
		} {
			if rest, ok := strings.CutPrefix(path, once.said); ok {
				return "spec.versions[0]." + once.written + rest
			}
		}
	}
	return path
}

// undecodable matches errors of encoding/json about the type of a value. The path has neither
// indexes of lists nor keys of maps.
var undecodable = regexp.MustCompile(`json: cannot unmarshal (\w+)(?: (\S+))? into Go struct field \w+\.(\S+) of type (\S+)`)

// wrongType is a field with a value of another JSON type than its kind has.
type wrongType struct {
	steps []any // names and indexes
	text  string
}

func (w wrongType) path() string {
	var path strings.Builder
	for _, step := range w.steps {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&path, "[%d]", step)
		case string:
			switch {
			case strings.ContainsAny(step, ".["):
				step = "[" + step + "]"
			case path.Len() > 0:
				step = "." + step
			}
			path.WriteString(step)
		}
	}
	return path.String()
}

// mistyped finds the field of an object that a server could not decode.
func mistyped(err error, object map[string]any) (wrongType, bool) {
	found := undecodable.FindStringSubmatch(err.Error())
	if found == nil {
		return wrongType{}, false
	}
	kind, value, path, want := found[1], found[2], found[3], found[4]
	steps, ok := find(object, strings.Split(path, "."), func(v any) bool { return isOf(v, kind, value) })
	if !ok {
		return wrongType{}, false
	}
	has := article(kind)
	if value != "" {
		has = value
	}
	return wrongType{steps, fmt.Sprintf("must be %s, not %s", article(jsonType(want)), has)}, true
}

// isOf reports whether a value has a type as encoding/json names it, and a text if it is not "".
func isOf(v any, kind, text string) bool {
	switch v := v.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "bool"
	case int64:
		return kind == "number" && (text == "" || text == strconv.FormatInt(v, 10))
	case float64:
		return kind == "number" && (text == "" || text == strconv.FormatFloat(v, 'g', -1, 64))
	case map[string]any:
		return kind == "object"
	case []any:
		return kind == "array"
	}
	return false
}

// find returns the steps to the first value below names that matches. It looks into all elements of
// lists on the way and, at the end, into lists and maps.
func find(v any, names []string, matches func(any) bool) ([]any, bool) {
	if len(names) == 0 && matches(v) {
		return nil, true
	}
	switch v := v.(type) {
	case []any:
		for i, element := range v {
			if rest, ok := find(element, names, matches); ok {
				return append([]any{i}, rest...), true
			}
		}
	case map[string]any:
		if len(names) > 0 {
			member, has := v[names[0]]
			if !has {
				return nil, false
			}
			rest, ok := find(member, names[1:], matches)
			return append([]any{names[0]}, rest...), ok
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if rest, ok := find(v[name], nil, matches); ok {
				return append([]any{name}, rest...), true
			}
		}
	}
	return nil, false
}

// remove removes a member of an object, or what of it contains the value: an element of a list
// stays, as null, so that the indexes of others do not change.
func remove(object map[string]any, steps []any) {
	var v any = object
	for _, step := range steps[:len(steps)-1] {
		switch step := step.(type) {
		case int:
			v = v.([]any)[step]
		case string:
			v = v.(map[string]any)[step]
		}
	}
	switch last := steps[len(steps)-1].(type) {
	case int:
		v.([]any)[last] = nil
	case string:
		delete(v.(map[string]any), last)
	}
}

// jsonType returns the JSON type that a Go type is decoded from.
func jsonType(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "array"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "integer"
	case strings.HasPrefix(goType, "float"):
		return "number"
	case goType == "bool", goType == "string":
		return goType
	}
	return "object"
}

// article returns a JSON type with its article.
func article(jsonType string) string {
	switch jsonType {
	case "bool":
		return "a boolean"
	case "array":
		return "a list"
	case "integer", "object":
		return "an " + jsonType
	}
	return "a " + jsonType
}
