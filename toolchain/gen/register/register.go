// Package register generates SchemeGroupVersion, Resource and AddToScheme of API packages, as
// register-gen does. It generates nothing for a package that declares AddToScheme itself.
package register

import (
	"fmt"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// FileName is the name of the generated file, next to the types.
const FileName = "zz_generated.register.go"

// Generate returns the Go source, or nil if the package has no kinds or declares AddToScheme.
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
		f.Printf("// GroupVersion is SchemeGroupVersion, with the name that kubebuilder's projects use.\nvar GroupVersion = SchemeGroupVersion\n")
	}
	for _, fn := range []struct{ name, in, doc string }{{"Kind", "kind", "GroupKind"},
		{"Resource", "resource", "GroupResource"}} {
		if !pkg.Declares(fn.name) {
			f.Expand(`// $Name is the $Group of a $in of this group.
func $Name($in string) $schema.$Group { return SchemeGroupVersion.With$Name($in).$Group() }
`, source.Vars{"Name": fn.name, "in": fn.in, "Group": fn.doc})
		}
	}
	if !pkg.Declares("SchemeBuilder") {
		f.Expand(`// SchemeBuilder collects the functions that AddToScheme calls.
var SchemeBuilder = $runtime.NewSchemeBuilder(addKnownTypes)

// localSchemeBuilder is the name of SchemeBuilder in the package's generated code.
var localSchemeBuilder = &SchemeBuilder
`, nil)
	}
	var types strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&types, "&%s{},\n", k.Name)
	}
	install := ""
	if !pkg.Declares("Install") {
		install = "// Install is AddToScheme, with the name that register-gen prefers.\nvar Install = AddToScheme\n\n"
	}
	f.Expand(`// AddToScheme adds the package's kinds to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

${install}func addKnownTypes(scheme *$runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		$types)
	$metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
`, source.Vars{"types": types.String(), "install": install})
	return f.Bytes(source.Options{Header: header, Constraint: source.Constraint})
}
