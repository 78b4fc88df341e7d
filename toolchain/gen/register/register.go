// Package register writes SchemeGroupVersion, Resource and AddToScheme of API packages, as register-gen does. What a package declares itself
// is not written again: a package with an AddToScheme of its own gets nothing.
package register

import (
	"fmt"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// FileName is what the generated file is called, beside the types.
const FileName = "zz_generated.register.go"

// Generate is the Go source; nil if the package has no kinds or is registered by hand.
func Generate(pkg *model.Package, header string) ([]byte, error) {
	if !pkg.HasAPI || pkg.Declares("AddToScheme") {
		return nil, nil
	}
	kinds := pkg.Objects()
	if len(kinds) == 0 {
		return nil, nil
	}
	f := source.New(pkg.Path, pkg.Name)
	if !pkg.Declares("GroupName") {
		f.Printf("// GroupName is the name of the API group.\nconst GroupName = %q\n", pkg.Group)
	}
	if !pkg.Declares("SchemeGroupVersion") {
		f.Expand(`// SchemeGroupVersion is the group and version of the package's kinds.
var SchemeGroupVersion = $schema.GroupVersion{Group: GroupName, Version: "$version"}
`, source.Vars{"version": pkg.Version})
	}
	if !pkg.Declares("GroupVersion") {
		f.Printf("// GroupVersion is SchemeGroupVersion, under the name that kubebuilder's projects have.\nvar GroupVersion = SchemeGroupVersion\n")
	}
	for _, fn := range []struct{ name, in, doc string }{{"Kind", "kind", "GroupKind"}, {"Resource", "resource", "GroupResource"}} {
		if !pkg.Declares(fn.name) {
			f.Expand(`// $Name is the $Group of a $in of this group.
func $Name($in string) $schema.$Group { return SchemeGroupVersion.With$Name($in).$Group() }
`, source.Vars{"Name": fn.name, "in": fn.in, "Group": fn.doc})
		}
	}
	if !pkg.Declares("SchemeBuilder") {
		f.Expand(`// SchemeBuilder collects what AddToScheme does.
var SchemeBuilder = $runtime.NewSchemeBuilder(addKnownTypes)

// localSchemeBuilder is the same, as generated code of the package knows it.
var localSchemeBuilder = &SchemeBuilder
`, nil)
	}
	var types strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&types, "&%s{},\n", k.Name)
	}
	f.Expand(`// AddToScheme adds the package's kinds to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *$runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		$types)
	$metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
`, source.Vars{"types": types.String()})
	return f.Bytes(source.Options{Header: header, Constraint: source.Constraint})
}
