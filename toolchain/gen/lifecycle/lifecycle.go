// Package lifecycle generates the methods that tell a server in which releases an API version
// exists: APILifecycleIntroduced, APILifecycleDeprecated, APILifecycleReplacement and
// APILifecycleRemoved, as prerelease-lifecycle-gen does. Releases are of the form MAJOR.MINOR.
//
// A version that is not stable, such as v1beta1, is deprecated three minor releases after its
// introduction and removed three minor releases after its deprecation, unless markers say
// otherwise.
package lifecycle

import (
	"errors"
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// FileName is the name of the generated file, next to the types.
const FileName = "zz_generated.prerelease-lifecycle.go"

const prefix = "k8s:prerelease-lifecycle-gen:"

// release is a release of the API's project.
type release struct{ major, minor int }

// Generate returns the Go source, or nil if no kind of the package declares its lifecycle. The
// error joins all errors, each a *loader.Error with a position.
func Generate(pkg *model.Package, header string) ([]byte, error) {
	f := source.New(pkg.Path, pkg.Name)
	var errs []error
	for _, t := range pkg.Types {
		if !isKind(t) {
			continue
		}
		if !declares(t) {
			if !pkg.Markers.Has("k8s:prerelease-lifecycle-gen") {
				continue
			}
			errs = append(errs, loader.Errorf(t.Pos(), "%s needs +%sintroduced=MAJOR.MINOR", t.Name, prefix))
			continue
		}
		if err := write(f, pkg, t); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil || f.Len() == 0 {
		return nil, err
	}
	return f.Bytes(source.Options{Header: header, Constraint: source.Constraint})
}

// isKind reports whether a type embeds TypeMeta.
func isKind(t *model.Type) bool {
	st, ok := t.Type().Underlying().(*loader.Struct)
	return ok && !t.Generic() && ast.IsExported(t.Name) &&
		slices.ContainsFunc(st.Fields, func(f *loader.Field) bool { return f.Embedded && f.Name == "TypeMeta" })
}

func declares(t *model.Type) bool {
	for _, m := range t.Markers {
		if strings.HasPrefix(m.Name, prefix) {
			return true
		}
	}
	return false
}

var stable = regexp.MustCompile(`^v\d+$`)

func write(f *source.File, pkg *model.Package, t *model.Type) error {
	introduced, err := releaseOf(t, "introduced")
	if err != nil {
		return err
	}
	if introduced == nil {
		return loader.Errorf(t.Pos(), "%s needs +%sintroduced=MAJOR.MINOR", t.Name, prefix)
	}
	deprecated, err := releaseOf(t, "deprecated")
	if err != nil {
		return err
	}
	removed, err := releaseOf(t, "removed")
	if err != nil {
		return err
	}
	if version := pkg.Path[strings.LastIndexByte(pkg.Path, '/')+1:]; !stable.MatchString(version) {
		if deprecated == nil {
			deprecated = &release{introduced.major, introduced.minor + 3}
		}
		if removed == nil {
			removed = &release{deprecated.major, deprecated.minor + 3}
		}
	}
	method(f, t, "Introduced", "introduced", introduced)
	method(f, t, "Deprecated", "deprecated", deprecated)
	if err := replacement(f, t); err != nil {
		return err
	}
	method(f, t, "Removed", "removed", removed)
	return nil
}

// method writes a method unless the type has it.
func method(f *source.File, t *model.Type, name, what string, r *release) {
	if r == nil || loader.FindMethod(t.Type(), "APILifecycle"+name) != nil {
		return
	}
	verb := "that " + map[string]string{"introduced": "introduces", "deprecated": "deprecates",
		"removed": "removes"}[what]
	f.Printf("// APILifecycle%s returns the release %s the API.\nfunc (in *%s) APILifecycle%s() (major, minor int) { return %d, %d }\n", name, verb, t.Name, name, r.major, r.minor)
}

// releaseOf returns the release that a marker names, or nil if the type does not have the marker.
func releaseOf(t *model.Type, name string) (*release, error) {
	m, err := only(t, name)
	if m == nil || err != nil {
		return nil, err
	}
	major, minor, _ := strings.Cut(m.Text(), ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if errors.Join(err1, err2) != nil || a < 0 || b < 0 {
		return nil, loader.Errorf(m.Pos, "+%s needs a release such as 1.37, not %q", m.Name, m.Text())
	}
	return &release{a, b}, nil
}

// only returns the marker with a name, or nil. It is an error if a type has two.
func only(t *model.Type, name string) (found *marker.Marker, err error) {
	for _, m := range t.Markers {
		if m.Name != prefix+name {
			continue
		}
		if found != nil {
			return nil, loader.Errorf(m.Pos, "%s has +%s twice", t.Name, m.Name)
		}
		found = m
	}
	return found, nil
}

var (
	group   = regexp.MustCompile(`^[a-z0-9.-]*$`)
	version = regexp.MustCompile(`^v[a-z0-9]*$`)
	kind    = regexp.MustCompile(`^[A-Z]`)
)

func replacement(f *source.File, t *model.Type) error {
	m, err := only(t, "replacement")
	if m == nil || err != nil {
		return err
	}
	parts := strings.Split(m.Text(), ",")
	if len(parts) != 3 || !group.MatchString(parts[0]) || !version.MatchString(parts[1]) ||
		!kind.MatchString(parts[2]) {
		return loader.Errorf(m.Pos, "+%s needs GROUP,VERSION,KIND, not %q", m.Name, m.Text())
	}
	if loader.FindMethod(t.Type(), "APILifecycleReplacement") != nil {
		return nil
	}
	f.Expand(fmt.Sprintf(`// APILifecycleReplacement returns the kind to use instead.
func (in *%s) APILifecycleReplacement() $schema.GroupVersionKind {
	return $schema.GroupVersionKind{Group: %q, Version: %q, Kind: %q}
}
`, t.Name, parts[0], parts[1], parts[2]), nil)
	return nil
}
